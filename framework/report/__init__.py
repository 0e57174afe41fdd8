"""A run as one HTML file: `page_data` says what a page shows, `html` puts it and the page into one file."""
