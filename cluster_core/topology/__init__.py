"""Nodes of a cluster and the text and RESP forms in which servers describe them."""
