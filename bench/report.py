"""What bench/report.h is for C++: prints what a benchmark found, as a table for
people or as JSON of the same shape. More is better in every row."""

import json


class Report:
    def __init__(self, name, question):
        self.name, self.question = name, question
        self.rows, self.notes = [], []

    def add(self, what, unit, expected_from, expected, measured, **more):
        self.rows.append({
            "what": what, "unit": unit, "expected_from": expected_from,
            "expected": expected, "measured": measured,
            "ratio": measured / expected, **more})

    def note(self, text):
        self.notes.append(text)

    def print(self, as_json):
        if as_json:
            print(json.dumps(vars(self), indent=2))
            return
        print(f"{self.question}\n{'':36} {'measured':>12} {'expected':>12} "
              f"{'ratio':>6}  unit, expected from")
        fixed = {"what", "unit", "expected_from", "expected", "measured", "ratio"}
        for row in self.rows:
            more = "".join(f", {name} {value:.4g}" for name, value in row.items()
                           if name not in fixed)
            print(f"{row['what']:36} {row['measured']:12.5g} "
                  f"{row['expected']:12.5g} {row['ratio']:6.2f}  {row['unit']}, "
                  f"{row['expected_from']}{more}")
        for note in self.notes:
            print(note)
