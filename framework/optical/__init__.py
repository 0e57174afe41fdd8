"""All-gathers on WDM rings as mathematics: closed forms, lightpaths, wavelengths. No fabric, no packet."""
