"""Published proxies, and how any proxy is loaded."""
