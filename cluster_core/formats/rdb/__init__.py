"""The RDB snapshot format of Redis and Valkey."""
