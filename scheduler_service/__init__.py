"""The API and the vocabulary that every room shares."""
