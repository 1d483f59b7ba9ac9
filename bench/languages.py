"""The languages of the general corpora, those with the most text first."""

LANGS = """
    de fr ja es ru zh tr hu cs it pt nl pl ko fi ro sv da bg el ar fa uk id vi hi he
""".split()  # noqa: SIM905
