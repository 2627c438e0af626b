"""A crew: threads that carry out orders within compiled code, each at its post, with a copy of the weights (`copies`).

Whoever gives an order takes part in it as the first of the crew, and goes on when all have carried it out. The others wait for
the next one where they are (`jit.standby`), so that an order costs a few microseconds.
"""

from _thread import get_ident, start_new_thread
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...jit import jitable, jitable_call, vectors
from ...jit.meeting import ARRIVED, GIVEN_UP, fetch_add, give_up
from ...jit.standby import CARRIED_OUT, LEAVE, ORDER_KIND, ORDERS, SAYS, all_done, new_desk, next_order, send
from .copies import Copies, Meeting
from .schedule import Schedule, gather_strips, strip_starts

GATHER, VISIT, AGAIN, REACH = 1, 2, 3, 4  # kinds of orders, beside LEAVE
ORDER_HOME, ORDER_PASS, ORDER_START, ORDER_STOP, ORDER_EACH, IN_ALL_LISTS, ORDER_CREW = range(
    SAYS + 1, SAYS + 8
)  # what an order says: places on the desk
ORDER_LEVEL, ORDER_SPREAD, ORDER_PUSH = range(3)  # and among the numbers
FOUND_GAP, FOUND_GAIN, FOUND_SPREAD, FOUND_COUNT = range(4)  # what a thread has found
LIST_FIRST, LIST_LENGTH = range(2)  # of its list of examples in the order of visits


Homes = tuple[np.ndarray, np.ndarray]  # weights that copies may start from: what duals sum up to, what scores use
STANDING: set[int] = set()  # the threads of all crews


class Post(NamedTuple):
    """Where one thread of a crew stands."""

    me: int
    crew: int
    start: int  # where in the order of visits there is room for the examples that it lists
    desk: np.ndarray
    numbers: np.ndarray
    found: np.ndarray  # (crew, 8)
    list: np.ndarray
    random: np.ndarray  # the state of its generator, one word
    homes: tuple[Homes, ...]
    meeting: Meeting


@jitable
def portion(first, last, k, count):
    """The k-th of `count` runs of nearly the same length that a range has."""
    return first + (last - first) * k // count, first + (last - first) * (k + 1) // count


@jitable
def part_of_list(post, first, last):
    """Those of a thread's list whose turn it is when all lists together are at first ... last - 1."""
    begin, length, listed = post.list[LIST_FIRST], post.list[LIST_LENGTH], max(post.desk[IN_ALL_LISTS], 1)
    return begin + length * first // listed, begin + length * last // listed


@jitable
def hears(post, seen):
    """The number of the next order; the first of the crew gives it."""
    if post.me == 0:
        return fetch_add(post.desk, ORDERS, 1) + 1
    return next_order(post.desk, seen)


@jitable
def reports(post):
    """This thread has carried out the order; returns whether it is to wait for the next."""
    if post.me == 0:
        all_done(post.desk, post.meeting.board, post.crew - 1)
        return False
    fetch_add(post.desk, CARRIED_OUT, 1)
    return True


@jitable
def takes_part(post):
    """Whether the order is for this thread: some are for the first few of the crew."""
    return post.me < post.desk[ORDER_CREW]


@jitable
def at_home(post):
    """The meeting about the weights that the order is about, of those who take part. Spans of entries end with cache lines."""
    m, home, crew = post.meeting, post.homes[post.desk[ORDER_HOME]], post.desk[ORDER_CREW]
    size, line = home[0].size, vectors.LINE // home[0].itemsize
    first, last = portion(0, (size + line - 1) // line, m.me, crew)
    first, last = min(first * line, size), min(last * line, size)
    return Meeting(m.me, crew, first, last, m.board, home[0], home[1], m.V, m.W, m.variance, m.found, m.sheet, m.moved)


@jitable_call
def gather_list(plan, post):
    """List the examples of this thread's strips that are due."""
    post.list[LIST_FIRST] = post.start
    post.list[LIST_LENGTH] = gather_strips(plan, post.desk[ORDER_PASS], post.me, post.crew, post.start, post.random)
    post.found[post.me, FOUND_COUNT] = post.list[LIST_LENGTH]


def stand(serve: Callable, args: tuple, board: np.ndarray, errors: list[BaseException]) -> None:
    """What a thread of a crew does. It must not know the run, or nobody would ever tell it to leave."""
    STANDING.add(get_ident())
    try:
        serve(*args)
    except BaseException as error:
        errors.append(error)
        give_up(board)
    finally:
        STANDING.discard(get_ident())


class StandingCrew:
    """`serve(*args(post))` is what each thread does. The first of them have copies of the weights, or all have."""

    def __init__(self, size: int, copies: Copies, homes: list[Homes], plan: Schedule, seats: Any):
        self.size, self.copies, self.desk = size, copies, new_desk()
        self.numbers, self.found = np.zeros(8), np.zeros((self.size, 8))
        starts = strip_starts(plan.due.size, self.size)
        flat = tuple((v.reshape(-1), w.reshape(-1)) for v, w in homes)
        self.posts = []
        for p in range(self.size):
            own = np.zeros(8, np.int64), np.zeros(8, np.uint64)
            common = self.desk, self.numbers, self.found, *own, flat, copies.meeting(p)
            self.posts.append(Post(p, self.size, starts[p], *common))
        self.serve, self.args = seats(self.posts)
        self.errors: list[BaseException] = []
        for p in range(1, self.size):
            start_new_thread(stand, (self.serve, self.args[p], copies.board, self.errors))  # which does not wait for it to begin

    def carry_out(
        self, kind: int, home: int, says: tuple[int, ...], numbers: tuple[float, ...], crew: int | None = None
    ) -> np.ndarray:
        """Give an order to the first `crew` threads, or to all, and take part in it; returns what they have found."""
        crew = self.size if crew is None else crew
        self.desk[ORDER_KIND], self.desk[ORDER_HOME], self.desk[ORDER_CREW] = kind, home, crew
        self.copies.board[ARRIVED] = 0  # nobody is at a meeting
        self.desk[ORDER_PASS : ORDER_PASS + len(says)], self.numbers[: len(numbers)] = says, numbers
        try:
            self.serve(*self.args[0])
        except BaseException:
            give_up(self.copies.board)
            raise
        if self.copies.board[GIVEN_UP]:
            raise self.errors[0]
        return self.found[:crew]

    def gather(self, now: int, words: np.ndarray) -> int:
        """Let each thread list its examples, in the random order that its word begins; returns how many there are."""
        for post, word in zip(self.posts, words, strict=True):
            post.random[0] = word
        listed = int(self.carry_out(GATHER, 0, (now,), ())[:, FOUND_COUNT].sum())
        self.desk[IN_ALL_LISTS] = listed
        return listed

    def hand_out(self, count: int, crew: int) -> None:
        """The first `count` of the order of visits, in equal parts for the first `crew` threads."""
        self.desk[IN_ALL_LISTS] = count
        for post in self.posts[:crew]:
            first, last = portion(0, count, post.me, crew)
            post.list[:2] = first, last - first

    def lists(self) -> list[tuple[int, int]]:
        """Where in the order of visits each thread has its examples: from, and how many."""
        return [(int(post.list[LIST_FIRST]), int(post.list[LIST_LENGTH])) for post in self.posts]

    def up_to(self, count: int, crew: int) -> list[tuple[int, int]]:
        """Where in the order of visits the examples are that the first `crew` threads have visited when all lists together are at
        `count`: from, and up to."""
        return [(int(first), int(last)) for first, last in (part_of_list(post, 0, count) for post in self.posts[:crew])]

    def close(self) -> None:
        self.desk[ORDER_KIND] = LEAVE
        send(self.desk)

    def __del__(self) -> None:
        self.close()
