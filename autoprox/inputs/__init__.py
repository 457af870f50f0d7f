"""What networks see: images, texts, noise."""
