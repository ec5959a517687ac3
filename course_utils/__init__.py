"""The helper package of the course "What does attention tell us about why a model decided?".

Rooms, each importing only from those before it: data, models, analysis, show, exercises. Importing this module is quick:
torch is loaded by the room that needs it.
"""

__version__ = "0.1.0"
