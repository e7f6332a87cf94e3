"""The search for a plan: a relaxation, a program for heavy slots, and one walk over windows of slots."""
