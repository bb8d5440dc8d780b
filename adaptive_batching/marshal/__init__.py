"""The aiohttp face: HTTP in, jobs out, answers back."""
