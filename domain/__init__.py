"""The business rules of Plaudit as pure code: no I/O, no framework, no clock of its own."""
