"""Records as people and programs read them: text, HTML, JSON, with less in them where that is due. Internal."""
