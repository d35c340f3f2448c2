"""The fields of a payload class: types, constraints and texts, read once into a frozen table. Internal."""
