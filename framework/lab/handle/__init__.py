"""A lab that stays up, as its user sees it: `rw.lab`, and the prompt of `railweave shell`."""
