"""Values of a dump as JSON, RESP, CSV or Arrow columns."""
