#!/usr/bin/python3 -B
"""A live process that the coordinator does not hear from is taken out of the
run, and takes part again when the link heals. A relay between worker 1 and the
coordinator can fall silent without closing anything, as a network does."""

import selectors
import signal
import socket
import threading
import unittest

import by_hand
import harness

LEASE_S = 3
# Longer than a process used to wait for a silent coordinator.
LONG_S = 7


class Relay:
    """Forwards everything sent to `address`, in both directions. While it is
    silent it neither reads, writes, closes nor connects."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.talking = threading.Event()
        self.talking.set()
        self.over = False
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def close(self):
        self.over = True
        self.talking.set()
        self.thread.join()

    def serve(self):
        peers = {}
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            while not self.over:
                ready = selector.select(timeout=0.05)
                self.talking.wait()
                for key, _ in ready:
                    if key.fileobj is self.listener:
                        self.connect(peers, selector)
                    else:
                        self.hand_on(key.fileobj, peers, selector)
            for end in [self.listener, *peers]:
                end.close()

    def connect(self, peers, selector):
        here, _ = self.listener.accept()
        try:
            there = socket.create_connection(self.target)
        except OSError:
            here.close()
            return
        peers[here], peers[there] = there, here
        for end in (here, there):
            selector.register(end, selectors.EVENT_READ)

    @staticmethod
    def hand_on(end, peers, selector):
        if end not in peers:
            return
        try:
            data = end.recv(65536)
            if data:
                peers[end].sendall(data)
                return
        except OSError:
            pass
        other = peers.pop(end)
        del peers[other]
        for gone in (end, other):
            selector.unregister(gone)
            gone.close()


class CutOffTest(unittest.TestCase):

    def setUp(self):
        self.cluster = by_hand.ByHand(
            run_dir=True, start=["shard 0", "shard 1", "worker 0", "evaluator"],
            sets=[f"limits.lease_s={LEASE_S}", "sync={ policy: K_ASYNC k: 2 }",
                  "optimizer.learning_rate=0.005"])
        self.addCleanup(self.cluster.__exit__)
        self.relay = Relay(self.cluster.lead)
        self.addCleanup(self.relay.close)
        flags = [f for f in self.cluster.commands["worker 1"]
                 if not str(f).startswith("--coordinator=")]
        self.cluster.commands["worker 1"] = [
            *flags, f"--coordinator={self.relay.address}"]
        self.cluster.start("worker 1")
        self.cluster.await_training()

    def worker_1(self, status):
        return status["worker"][1]

    def fall_silent(self):
        """Lets the lease of worker 1 end without any connection being closed.
        """
        self.relay.talking.clear()
        return self.cluster.await_status(
            lambda s: self.worker_1(s)["state"] == "cut off",
            "worker 1 to be cut off")

    def ended_well(self):
        self.cluster.processes["shard 0"].send_signal(signal.SIGINT)
        for name, process in self.cluster.processes.items():
            self.assertEqual(process.wait(timeout=harness.TIMEOUT_S), 0,
                             self.cluster.log(name))

    # Earlier versions exited with 75 after 5 s and stayed away.
    def test_a_worker_without_network_for_long_comes_back_by_itself(self):
        self.fall_silent()
        status = self.cluster.await_status(
            lambda s: self.worker_1(s)["last_heard_s"] > LONG_S,
            "worker 1 to be silent for long")
        self.assertIn("missing: worker 1", status["waiting_for"])
        self.assertIsNone(self.cluster.processes["worker 1"].poll(),
                          self.cluster.log("worker 1"))
        self.relay.talking.set()
        back = self.cluster.await_status(
            lambda s: self.worker_1(s)["incarnation"] == 2,
            "worker 1 to join again")
        applied = self.worker_1(back)["gradients"]["applied"]
        self.cluster.await_status(
            lambda s: self.worker_1(s)["gradients"]["applied"] > applied,
            "a further gradient of worker 1")
        self.assertIn("event=new_life", self.cluster.log("worker 1"))
        self.ended_well()

    def test_a_replacement_waits_for_the_lease_and_the_older_one_is_refused(self):
        self.relay.talking.clear()
        # A word that comes after the replacement has asked would refuse it.
        self.cluster.await_status(
            lambda s: self.worker_1(s)["last_heard_s"] > LEASE_S / 3,
            "the last words of worker 1")
        self.cluster.commands["replacement"] = [
            f if not str(f).startswith("--coordinator=")
            else f"--coordinator={self.cluster.lead}"
            for f in self.cluster.commands["worker 1"]]
        self.cluster.start("replacement")
        self.cluster.await_status(
            lambda s: self.worker_1(s)["incarnation"] == 2
            and self.worker_1(s)["gradients"]["applied"] > 0,
            "the replacement to take part")
        self.assertIn("event=session_refused", self.cluster.log("shard 0"))
        self.assertIn("held by", self.cluster.log("shard 0"))
        self.relay.talking.set()
        older = self.cluster.processes.pop("worker 1")
        self.assertEqual(older.wait(timeout=harness.TIMEOUT_S), 1,
                         self.cluster.log("worker 1"))
        replaced = self.cluster.processes["replacement"].pid
        self.assertRegex(
            self.cluster.log("worker 1").split("event=failed")[-1],
            rf"worker 1: taken by \S+:{replaced}, which is connected; not for "
            rf"\S+:{older.pid}")
        self.ended_well()


if __name__ == "__main__":
    harness.main()
