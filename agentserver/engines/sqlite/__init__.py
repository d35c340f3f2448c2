"""The engine that keeps everything in one SQLite file: the journal, its writer, its reader, its care. Internal."""
