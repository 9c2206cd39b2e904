"""Messages of Protocol Buffers as lists of (number, value): an int, bytes, a str, or a list that is a message."""


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def encode(fields):
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
            continue
        content = encode(value) if isinstance(value, list) else value.encode() if isinstance(value, str) else value
        out += varint(number << 3 | 2) + varint(len(content)) + content
    return out


def decode(data):
    """Each field as (number, int or bytes)."""
    position, fields = 0, []

    def number():
        nonlocal position
        value = shift = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while position < len(data):
        key = number()
        if key & 7 == 0:
            fields.append((key >> 3, number()))
            continue
        assert key & 7 == 2, f"wire type {key & 7}"
        count = number()
        assert position + count <= len(data)
        fields.append((key >> 3, data[position : position + count]))
        position += count
    return fields


def only(data, *path):
    """The one field at the end of these numbers; b"" where there is none."""
    for number in path:
        found = [value for field, value in decode(data) if field == number]
        assert len(found) <= 1, f"field {number} is there {len(found)} times"
        if not found:
            return b""
        data = found[0]
    return data
