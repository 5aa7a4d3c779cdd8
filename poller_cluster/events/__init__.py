"""Appends events to the feeds of clients, as the writer of the tracks of the pollers that this node holds."""
