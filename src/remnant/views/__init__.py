"""uint8 images to normalised float views, and back."""
