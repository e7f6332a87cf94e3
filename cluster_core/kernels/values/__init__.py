"""Values of a dump as bytes of another format: JSON, RESP, CSV, or words for Arrow."""
