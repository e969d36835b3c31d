"""What the tests of groups train, and how they look at it."""

import harness

SYNC = ["sync.policy=SYNC", "sync.gradients_per_update=4"]
# Long enough to be interrupted in the middle.
LONG = ["sync.policy=SYNC", "sync.gradients_per_update=2", "stop.epochs=20",
        "checkpoint.every_updates=10", "worker.micro_batch=6"]
SLOW = "--set=delays.compute.constant.ms=10"

MLP = """
data { linear_regression { features: 31 train_samples: 1280 test_samples: 64 }
       batch_size: 32 }
model {
  loss: MEAN_SQUARED_ERROR
  layer { dense { units: 24 } }
  layer { batch_norm {} }
  layer { tanh {} }
  layer { dropout { rate: 0.2 } }
  layer { dense { units: 16 } }
  layer { tanh {} }
  layer { dense { units: 1 } }
}
optimizer { learning_rate: 0.02 sgd { momentum: 0.9 } }
stop { epochs: 2 }
"""

# 32 MiB go from one stage to the next in each pass, and as many come back.
WIDE = """
sync { policy: SYNC }
data { linear_regression { features: 31 train_samples: 4096 test_samples: 64 }
       batch_size: 1024 }
worker { micro_batch: 256 }
model {
  loss: MEAN_SQUARED_ERROR
  layer { dense { units: 32768 } }
  layer { tanh {} }
  layer { dense { units: 16 } }
  layer { tanh {} }
  layer { dense { units: 1 } }
}
optimizer { learning_rate: 0.001 sgd {} }
stop { epochs: 2000 }
"""


def stages(number, cuts=(), more=""):
    text = f"worker.group={{ pipeline_stages: {number} {more} "
    return [text + " ".join(f'cuts: "{cut}"' for cut in cuts) + " }"]


def sound(test, run):
    """The run's books balance, and its log gives its weights."""
    for command in (["ledger", run.dir], ["replay", run.dir, "--json"]):
        result = harness.tool(*command)
        test.assertEqual(result.returncode, 0, result.stdout + result.stderr)
