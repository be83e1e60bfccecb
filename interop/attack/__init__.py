"""A small hostile client and its attacks on a server."""
