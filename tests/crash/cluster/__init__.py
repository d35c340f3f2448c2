"""Three servers on one database, attacked while clients use them; then the journal is compared with what clients saw."""
