"""What a page shows of a run; `page_data` is the contract."""
