"""All-gathers on WDM rings as mathematics: closed forms, lightpaths, wavelengths; without fabric or
packets."""
