"""Keep SCRAM verifiers of analysts, and check their proofs (RFC 5802 and RFC 7677).

The file has one line a user, as Postgres stores passwords. It never holds a password. The line of
`NOBODY` makes salts for unknown users that stay the same when the server starts again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from dfprivacy.errors import InvalidDescriptionError, OutputError

NOBODY = "*"
_ITERATIONS = 4096


def make_secret(size: int) -> bytes:
    """Return random bytes for keys and salts. Noise has a source of its own."""
    return os.urandom(size)


def make_password() -> str:
    """Return a password of 20 letters, digits, hyphens and underscores."""
    return base64.urlsafe_b64encode(make_secret(15)).decode()


@dataclass(frozen=True)
class Verifier:
    """Salted keys that check a password without knowing it."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    @classmethod
    def from_password(
        cls, password: str, salt: bytes | None = None, iterations: int = _ITERATIONS
    ) -> Verifier:
        """Derive the keys of a password, whose letters clients send in their normal form."""
        salt = make_secret(16) if salt is None else salt
        letters = unicodedata.normalize("NFKC", password).encode()
        salted = hashlib.pbkdf2_hmac("sha256", letters, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        server_key = hmac.digest(salted, b"Server Key", "sha256")
        return cls(salt, iterations, hashlib.sha256(client_key).digest(), server_key)

    def to_text(self) -> str:
        """Write the verifier as Postgres does."""
        salt, stored, server = (
            base64.b64encode(part).decode()
            for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"SCRAM-SHA-256${self.iterations}:{salt}${stored}:{server}"


_KEY = "[A-Za-z0-9+/]{43}="  # 32 bytes
_FIRST_MESSAGE = re.compile("([ny],,)(n=[^,]*,r=([^,]+)(?:,[^m,][^,]*)*)")
"""A login for no other user and without channel binding, and its nonce. `m` is an extension."""
_LINE = re.compile(rf"([^:]+):SCRAM-SHA-256\$(\d+):([A-Za-z0-9+/]{{22}}==)\$({_KEY}):({_KEY})")


def read_users(path: Path) -> dict[str, Verifier]:
    """Read all verifiers. A file that other users of the machine can read is refused."""
    if not path.exists():
        return {}
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidDescriptionError(
            f"other users of this machine can read {path.name!r}", hint=f"chmod 600 {path.name}"
        )
    users = {}
    for number, line in enumerate(
        path.read_text(encoding="utf-8", errors="replace").splitlines(), 1
    ):
        fields = _LINE.fullmatch(line)
        if fields is None:
            raise InvalidDescriptionError(
                f"line {number} of {path.name!r} is no verifier of a password",
                hint="make users with: dfprivacy serve user add POLICY NAME",
            )
        name, iterations, *keys = fields.groups()
        salt, stored, server = map(base64.b64decode, keys)
        users[name] = Verifier(salt, int(iterations), stored, server)
    return users


def write_users(path: Path, users: dict[str, Verifier]) -> None:
    """Write all verifiers to a file that only its owner can read."""
    lines = {NOBODY: Verifier.from_password(make_password()), **users}
    text = "".join(f"{name}:{verifier.to_text()}\n" for name, verifier in sorted(lines.items()))
    new = path.with_name(f"{path.name}.new")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
        new.replace(path)
    except OSError as error:
        raise OutputError(
            f"{path.name!r} can't be written: {error.strerror}", hint="check the folder's rights"
        ) from None


def check_password(verifier: Verifier | None, password: str) -> bool:
    """Check a password. An unknown user takes as long as another."""
    stored = verifier or Verifier(bytes(16), _ITERATIONS, bytes(32), bytes(32))
    sent = Verifier.from_password(password, stored.salt, stored.iterations)
    return hmac.compare_digest(sent.stored_key, stored.stored_key) and verifier is not None


class ScramExchange:
    """The server's half of one SCRAM-SHA-256 login.

    An unknown user gets a salt of its own that stays the same, so that names can't be guessed.
    """

    def __init__(self, user: str, verifier: Verifier | None, secret: bytes) -> None:
        self.is_known = verifier is not None
        mock_salt = hmac.digest(secret, user.encode(), "sha256")[:16]
        self._verifier = verifier or Verifier(mock_salt, _ITERATIONS, bytes(32), bytes(32))

    def start(self, message: str) -> str:
        """Answer the client's first message with nonce, salt and iterations.

        A ValueError for a message that asks for what this server has not offered.
        """
        if (fields := _FIRST_MESSAGE.fullmatch(message)) is None:
            raise ValueError
        self._header, self._client_first, nonce = fields.groups()
        self._nonce = nonce + base64.b64encode(make_secret(18)).decode()
        salt = base64.b64encode(self._verifier.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={self._verifier.iterations}"
        return self._server_first

    def finish(self, message: str) -> bytes | None:
        """Return the server's signature if the client's proof is right, else None.

        The client repeats the header of its first message, which nobody may have changed.
        """
        without_proof, _, proof = message.rpartition(",p=")
        transcript = f"{self._client_first},{self._server_first},{without_proof}".encode()
        signature = hmac.digest(self._verifier.stored_key, transcript, "sha256")
        sent = base64.b64decode(proof, validate=True)
        client_key = bytes(a ^ b for a, b in zip(sent, signature, strict=True))
        is_right = hmac.compare_digest(
            hashlib.sha256(client_key).digest(), self._verifier.stored_key
        )
        header = base64.b64encode(self._header.encode()).decode()
        is_same = without_proof.split(",")[:2] == [f"c={header}", f"r={self._nonce}"]
        if not (is_right and is_same and self.is_known):
            return None
        return hmac.digest(self._verifier.server_key, transcript, "sha256")
