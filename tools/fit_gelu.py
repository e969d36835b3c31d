#!/usr/bin/python3 -B
"""Fits the quotients of kernels/cpu/gelu.cc, and prints their coefficients.

A function f that is odd, x P(x^2) / Q(x^2) with Q(0) = 1: least squares on
points that are dense at both ends, again and again with more weight where the
error is largest (Lawson), so that in the end it is even. Then the coefficients
become floats: units of the last place are changed by chance, and a change stays
if 1/2 + f, computed in floats as the kernel does, errs less.
"""

import argparse
import math

import numpy as np

F32, F64 = np.float32, np.float64
SEED = 1


def share(x):
    return math.erf(x / math.sqrt(2)) / 2


def slope(x):
    return share(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def fit(f, end, over, under, points=1200, rounds=60):
    """The coefficients of P, of degree `over`, and of Q, of degree `under`."""
    angles = np.pi * (np.arange(points) + 0.5) / points
    x = end * (0.5 - 0.5 * np.cos(angles))
    want = np.array([f(v) for v in x])
    t = (x / end)**2
    p_powers = np.vander(t, over + 1, increasing=True)
    q_powers = np.vander(t, under + 1, increasing=True)
    weights, q = np.ones(points), np.ones(points)
    best = (math.inf, None, None)
    for _ in range(rounds):
        scale = np.sqrt(weights) / q
        left = np.hstack([x[:, None] * p_powers,
                          -want[:, None] * q_powers[:, 1:]])
        found = np.linalg.lstsq(left * scale[:, None], want * scale,
                                rcond=None)[0]
        p_of, q_of = found[:over + 1], np.append(1, found[over + 1:])
        q = q_powers @ q_of
        error = np.abs(x * (p_powers @ p_of) / q - want)
        if error.max() < best[0]:
            best = (error.max(), p_of / end**(2.0 * np.arange(over + 1)),
                    q_of / end**(2.0 * np.arange(under + 1)))
        weights *= error / error.max() + 1e-3
        weights /= weights.mean()
    return best


def in_floats(x, t, p_of, q_of):
    """1/2 + f as the kernel computes it: a fused product rounds once."""
    def polynomial(of):
        total = np.full_like(x, of[-1])
        for c in of[-2::-1]:
            total = F32(total.astype(F64) * t + F64(c))
        return total
    return F32(F32(0.5) + F32(F32(x * polynomial(p_of)) / polynomial(q_of)))


def settle(f, end, p_of, q_of, tries):
    """The coefficients as floats, and how far the result is off at most."""
    x = np.linspace(-end, end, 8001).astype(F32)
    t = F32(x * x).astype(F64)
    want = np.array([0.5 + f(float(v)) for v in x])

    def errors(p_of, q_of):
        return np.abs(in_floats(x, t, p_of, q_of).astype(F64) - want)

    random = np.random.default_rng(SEED)
    p_of, q_of = F32(p_of), F32(q_of)
    least = errors(p_of, q_of).max() + errors(p_of, q_of).mean()
    for _ in range(tries):
        changed = [p_of.copy(), q_of.copy()]
        for _ in range(random.integers(1, 4)):
            which = random.integers(0, 2)
            at = random.integers(which, len(changed[which]))  # Q(0) stays 1.
            units = int(random.integers(-6, 7))
            changed[which][at] *= F32(1 + units * 2.0**-23)
        now = errors(*changed)
        if now.max() + now.mean() < least:
            least = now.max() + now.mean()
            p_of, q_of = changed
    return p_of, q_of, errors(p_of, q_of).max()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tries", type=int, nargs="?", default=150_000,
                        help="changes of the coefficients as floats")
    args = parser.parse_args()
    for name, f, end, over, under in (("Below", share, 5.5, 5, 5),
                                      ("Derivative", slope, 5.9, 7, 6)):
        error, p_of, q_of = fit(f, end, over, under)
        p_of, q_of, off = settle(f, end, p_of, q_of, args.tries)
        print(f"{name}: up to {end}, fitted to {error:.1e}, "
              f"in floats off by {off:.2e} at most")
        for what, of in (("over", p_of), ("under", q_of)):
            print(f"  {what}: " + ", ".join(f"{v:.9g}f" for v in of))


if __name__ == "__main__":
    main()
