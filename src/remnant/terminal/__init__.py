"""Progress bars and tables for a terminal."""
