"""English verbs: irregular forms, and phrasal verbs such as "give up"."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache

_IRREGULAR = """
    ate:eat beaten:beat became:become began:begin bitten:bite blew:blow blown:blow bought:buy
    broke:break broken:break brought:bring built:build came:come caught:catch children:child chose:choose
    chosen:choose crept:creep dealt:deal did:do done:do drank:drink drawn:draw drew:draw driven:drive drove:drive
    drunk:drink dug:dig eaten:eat fed:feed feet:foot fell:fall felt:feel fled:flee flew:fly flown:fly forgot:forget
    forgotten:forget fought:fight found:find froze:freeze frozen:freeze gave:give given:give gone:go got:get
    gotten:get grew:grow grown:grow heard:hear held:hold hid:hide hidden:hide hung:hang kept:keep knew:know
    knives:knife known:know laid:lay led:lead left:leave lent:lend lost:lose made:make meant:mean men:man met:meet
    paid:pay ran:run rang:ring ridden:ride rode:ride rung:ring said:say sang:sing sank:sink sat:sit saw:see seen:see
    sent:send shaken:shake shone:shine shook:shake slept:sleep slid:slide sold:sell spent:spend spoke:speak
    spoken:speak stole:steal stolen:steal stood:stand struck:strike stuck:stick sunk:sink swam:swim swept:sweep
    swore:swear sworn:swear swung:swing taken:take taught:teach teeth:tooth thought:think threw:throw thrown:throw
    told:tell took:take tore:tear torn:tear understood:understand went:go wept:weep woke:wake woken:wake women:woman
    won:win wore:wear worn:wear written:write wrote:write
"""  # forms that a stemmer does not reduce, with their base
_BASES = dict(pair.split(":") for pair in _IRREGULAR.split())
_PHRASAL = {
    "up": """
        add back beat blow bottle break bring brush build bundle buy call catch cheer chop clean clear come conjure cook
        cover crop curl cut dig divide do draw dream dress drink dry eat end fill finish fix flare fold follow foul get
        give go grow hang heat hold hook hurry join jump keep lift light line link live lock look loosen make mark
        measure meet mess mix move open own pack pay pick pile play point prop pull put rake read ring roll round run
        rustle save set settle shake show shut sign sit slip slow smash snap sober speak speed split stand start stay
        step stir stock stop store sum take team tear throw tidy tie toughen trip turn type use wake walk warm wash
        weigh whip wind wrap write zip
    """,
    "out": """
        ask back bail bear block blow blurt bow branch break bring burn buy call carry cast catch check churn come cross
        cry cut die dig dine dish drop drown eat eke fade fall fan figure fill find fizzle flesh flush freak get give go
        grow hand hang help hold iron keep kick knock lash lay leak leave let lock look lose make map mark max miss move
        opt pass pay phase pick play point print pull push put reach ring roll root rule run sell send set settle shout
        show shut single sit sketch sort spell spill spread stamp stand start stay step stick straighten stretch strike
        take tear tell test think throw tire try turn wait walk wash watch wear weed wipe work write
    """,
    "off": """
        beat break bring brush call carry cast check chop come cool cross cut dash doze drive drop dry dust ease end
        fall fend fight finish get give go head hold keep kick kill knock lay leave let lift live log mark nod palm pass
        pay peel play pull push put rattle rip rub run scare see sell send set shake shave shoot show shrug shut sign
        sleep slip split stand start stop strip swear switch take tear tell throw tick tip touch trade turn ward wear
        wipe work write
    """,
    "down": """
        back bear blow bog boil break bring buckle burn calm cast chop clamp climb close come cool count crack cut die
        dress fall get go hand hold hunt jot keep knock lay let lie live load lock look mark melt narrow nail pass pin
        play pour pull put run scale settle shoot shut simmer sit slow splash stand stare step strike take talk tear
        throw tie tone track trickle turn vote wash water wear weigh wind write
    """,
    "away": """
        blow break carry chase clear die drive explain fade fall fritter get give go hide keep lock look melt pass put
        run scare send shy slip sneak stay steal stow take tear throw tuck turn wash waste wear while wither
    """,
    "back": """
        bring call claw come cut date draw fall fight get give go hand hold keep look pay pull push put report ring roll
        scale send set sit snap stand step strike take talk think throw trace turn win write
    """,
    "on": """
        carry cast catch cheer come drag get go hang hold keep latch log move pass press pull put spur stay switch take
        try turn urge
    """,
    "in": """
        barge break bring cash cave check chime chip close come drop factor fill fit get give hand join kick lock log
        move opt phone plug pull rein rope set settle sink step stop tie trade tune turn usher
    """,
    "over": """
        blow boil carry come cross do get gloss go hand hold knock look make mull pass pay pick pull roll run skip sleep
        start take talk think tide turn watch
    """,
    "through": "break carry come fall follow get go leaf live look pull put run see sift sit skim work",
    "along": "bring come get go play string tag",
    "around": "ask boss come crowd fool get go hang lie look mess move play push run shop show sit stick turn",
    "apart": "break come drift drive fall set take tear tell",
    "together": "band bind bring come get go join piece pull put stick tie",
    "forward": "bring carry come lead look move put step",
    "aside": "brush cast lay leave push put set stand step sweep",
}

PARTICLES = frozenset(_PHRASAL)  # of phrasal verbs


def regular(wording: str) -> str:
    """Replace the irregular forms in a folded English wording by their bases.

    >>> regular("men said")
    'man say'
    """
    return " ".join([_BASES.get(word, word) for word in wording.split(" ")])


def is_phrasal_verb(verb: str, particle: str) -> bool:
    """Whether a form of an English verb and a particle, both in small letters, are a phrasal verb.

    >>> is_phrasal_verb("gave", "up"), is_phrasal_verb("carrying", "out"), is_phrasal_verb("hands", "up")
    (True, True, False)
    """
    return particle in PARTICLES and verb in _forms_before(particle)


@cache
def _forms_before(particle: str) -> frozenset[str]:
    """Return all forms of the verbs that take a particle."""
    irregular = defaultdict(list)
    for form, base in _BASES.items():
        irregular[base].append(form)
    return frozenset(form for verb in _PHRASAL[particle].split() for form in (*_regular_forms(verb), *irregular[verb]))


def _regular_forms(verb: str) -> Iterator[str]:
    """Yield the forms of a regular verb, and others that no word has, such as "carryed"."""
    stems = [verb, verb + verb[-1]]  # "stop", "stopp"
    if verb.endswith("y"):
        stems.append(f"{verb[:-1]}i")
    if verb.endswith("e"):
        stems.append(verb[:-1])
    yield verb
    yield from (stem + ending for stem in stems for ending in ("s", "es", "ed", "ing"))
    if verb.endswith("ie"):
        yield f"{verb[:-2]}ying"
