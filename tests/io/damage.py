"""Bytes as a bad disk or a broken copy leaves them."""


def damaged(content, rng, first=0, last=None):
    """The bytes with up to three of those from `first` to `last` changed, inserted or deleted."""
    content = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(first, min(len(content), last or len(content)))
        change = rng.randrange(4)
        if change == 0:
            content[at] = rng.randrange(256)
        elif change == 1:
            content[at] ^= 1 << rng.randrange(8)
        elif change == 2:
            content[at:at] = rng.randbytes(rng.randint(1, 4))
        else:
            del content[at : at + rng.randint(1, 5)]
    return bytes(content)
