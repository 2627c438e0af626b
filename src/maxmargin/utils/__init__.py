"""What has no room of its own."""
