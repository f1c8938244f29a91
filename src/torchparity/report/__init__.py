"""What people and programs see: shows, never decides. Imports the data model alone."""
