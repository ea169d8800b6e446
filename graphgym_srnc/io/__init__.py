"""Files: results folders, settings, checksums and caches."""
