"""The parts of a record as bytes: lengths, numbers, and what they delimit."""


class TruncatedError(Exception):
    """A part is longer than the remaining bytes."""


class Cursor:
    """Reads the parts of a record one after the other."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._position = 0

    @property
    def is_at_end(self) -> bool:
        """True if no bytes are left."""
        return self._position == len(self._content)

    def part(self, length: int) -> memoryview:
        """The next `length` bytes."""
        end = self._position + length
        if length < 0 or end > len(self._content):
            raise TruncatedError
        start, self._position = self._position, end
        return self._content[start:end]

    def varint(self) -> int:
        """A number of up to 64 bits, seven in each byte, zigzag-encoded."""
        number = 0
        for shift in range(0, 70, 7):
            (byte,) = self.part(1)
            number |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return (number >> 1) ^ -(number & 1)
        raise TruncatedError

    def nullable(self) -> bytes | None:
        """Bytes after their length, which is negative for None."""
        length = self.varint()
        return None if length < 0 else bytes(self.part(length))
