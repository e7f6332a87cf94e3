"""Reports: tables as terminal text, HTML pages and JSON."""
