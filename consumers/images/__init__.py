"""Consumers of images."""
