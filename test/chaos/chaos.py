#!/usr/bin/env python3
"""chaos.py SETUP SLUICED CLOCK [SEEDS] -- two daemons with one usage
database, load, and faults; in the end the records equal what was acknowledged.

SETUP is sqlite, postgres or redis (rates in Redis, usage in PostgreSQL), or
kills: SQLite, and a daemon is killed many times. CLOCK is the library of
clock.c. A seed determines the faults, their order and the acts of each client;
processes are real, so that no two runs are the same. SEEDS is FIRST-LAST or one
number. The environment CHAOS_FAULTS selects faults by name.

The faults, named as the functions below: a daemon or the database is killed,
or both are; a daemon or the database is stopped; organisations are locked,
while replies are dropped; the network is cut, or drops replies, or closes its
connections; the disk of a daemon is full; its clock is set; Redis is flushed,
or killed, or a replica takes over. The journal is small, so that an outage can
fill it.

Organisations, three of each kind:

    capped   checks and holds against a quota; at the end it is used up
    billed   checks and reports; its plan has overage and is never refused
    metered  reports only, with keys; each is sent until it is acknowledged

The plan of `billed` and `metered` is in the registry. A daemon that has started
without the database does not know it, and keeps reports nevertheless.

For each organisation, at the end:

    (1) acknowledged <= used <= acknowledged + unknown, where unknown are units
        of requests that got no answer
    (2) capped: used = the quota, not more but for what the daemons count as
        overshoot (units that were freed while a daemon was thought to be
        gone), and not less but for holds that no client knows
    (3) billed: overage = used beyond the quota
    (4) the days of the bill add up to `used`, in the export, too
    (5) sluice_usage_lost_units_total is 0 at each daemon
"""
import json
import os
import random
import sys
import tempfile
import threading
import time

from servers import (DAY, PATIENCE, Daemon, Postgres, Proxy, Redis, remove,
                     wait_for)

CAP = 3000
INCLUDED = 100
POLICY = """\
sluice: 1
plans:
  default: free
  free: {}
  pro: { overage: true }
limits:
  units:
    kind: quota
    per: org
    rate: { free: %d/month, pro: %d/month }
    deny: { status: 402 }
  pace: { kind: token-bucket, per: org, rate: 100k/s }
routes:
  - { job: work, limits: [units, pace] }
default: []
""" % (CAP, INCLUDED)


class Account:
    """What the clients know of one organisation."""

    def __init__(self, kind, number):
        self.kind, self.org = kind, "%s-%d" % (kind, number)
        self.lock = threading.Lock()
        self.acknowledged = self.unknown = self.held = 0

    def add(self, acknowledged=0, unknown=0, held=0):
        with self.lock:
            self.acknowledged += acknowledged
            self.unknown += unknown
            self.held += held


class Client(threading.Thread):
    """Acts until told to stop. Its reports and settles are repeated until
    there is an answer."""

    def __init__(self, run, number):
        super().__init__(daemon=True)
        self.run_, self.number = run, number
        self.rng = random.Random(run.seed * 1000 + number)
        self.reports = 0

    def run(self):
        while not self.run_.over.is_set():
            account = self.rng.choice(self.run_.accounts)
            act = self.rng.random()
            if account.kind == "metered" or \
                    (account.kind == "billed" and act < 0.3):
                self.report(account)
            elif account.kind == "capped" and act < 0.2:
                self.hold(account)
            else:
                self.check(account)

    def daemon(self):
        return self.rng.choice(self.run_.daemons)

    def check(self, account, hold=None):
        cost = self.rng.randint(1, 3)
        body = {"job": "work", "org": account.org, "cost": cost}
        if account.kind == "capped":
            body["plan"] = "free"
        if hold:
            body["hold"] = hold
        status, text = self.daemon().ask("POST", "/v1/check", body)
        verdict = json.loads(text) if status == 200 else {}
        if status == 0:
            account.add(unknown=cost, held=cost if hold else 0)
        elif verdict.get("allowed") and not hold:
            account.add(acknowledged=cost)
        return cost, verdict

    def hold(self, account):
        cost, verdict = self.check(account, "60s")
        if not verdict.get("allowed"):
            return
        used = self.rng.randint(0, cost)
        if self.rng.random() < 0.3:  # whatever the answer
            self.daemon().ask("POST", "/v1/holds/%s/extend" % verdict["hold"],
                              {"hold": "60s"})
        path = "/v1/holds/%s/settle" % verdict["hold"]
        tries = absent = 0
        state = ""

        def settle():
            nonlocal tries, absent, state
            status, text = self.daemon().ask("POST", path, {"cost": used})
            if status not in (0, 200, 202, 404, 503):
                print("# settle:", status, text, flush=True)
            if status == 200:
                state = json.loads(text)["state"]
            tries += 1
            absent += status == 404
            return status in (200, 202) or absent > 10

        if not self.run_.insist(settle) or absent > 10:
            account.add(unknown=cost, held=cost)  # Redis has lost it
        elif state != "expired":
            account.add(acknowledged=used)
        elif tries > 1:  # a clock has ended it, perhaps after the first try
            account.add(unknown=used)

    def report(self, account):
        amount = self.rng.randint(1, 9)
        self.reports += 1
        body = {"org": account.org, "limit": "units", "amount": amount,
                "idempotency_key": "%d-%d-%d" %
                (self.run_.seed, self.number, self.reports)}

        def send():
            status, text = self.daemon().ask("POST", "/v1/usage", body)
            if status not in (0, 200, 202, 503):
                print("# report:", status, text, flush=True)
            return status in (200, 202)

        if self.run_.insist(send):
            account.add(acknowledged=amount)
        else:
            account.add(unknown=amount)
            self.run_.wrong.append("a report of " + account.org)


class Run:
    def __init__(self, setup, program, clock, seed):
        self.kills = setup == "kills"
        self.setup = "sqlite" if self.kills else setup
        self.program, self.seed = program, seed
        self.rng = random.Random(seed)
        self.folder = tempfile.mkdtemp(prefix="sluice-chaos-")
        self.over = threading.Event()
        self.redis = self.postgres = None
        self.to_postgres, self.to_redis = [], []
        self.wrong = []
        self.accounts = [Account(kind, i) for i in range(3)
                         for kind in ("capped", "billed", "metered")]
        with open(self.folder + "/p.yaml", "w", encoding="utf-8") as file:
            file.write(POLICY)
        self.daemons = [Daemon(name, program, clock, self.folder,
                               self.words(name))
                        for name in ("one", "two")]
        for account in self.accounts:
            if account.kind != "capped":
                self.register(account)

    def register(self, account):
        def put():
            return self.daemons[0].ask(
                "PUT", "/v1/subjects/org/" + account.org, {"plan": "pro"},
                admin=True)[0] == 200

        def is_known():
            """Another daemon may use what it knew before for some time."""
            path = "/v1/usage/org/%s?limit=units" % account.org
            return all('"plan":"pro"' in daemon.ask("GET", path)[1]
                       for daemon in self.daemons)

        if not wait_for("the plan of " + account.org, put) or \
                not wait_for("both to know " + account.org, is_known):
            raise SystemExit("Bail out! no plan")

    def words(self, name):
        words = ["-c", self.folder + "/p.yaml", "--deadline", "5s",
                 "--journal", "./state.usage?size=1MiB"]
        if self.setup == "sqlite":
            return words + ["--store", "memory:./state", "--usage",
                            "sqlite:%s/usage.db?shared" % self.folder]
        if not self.postgres:
            self.postgres = Postgres()
            self.postgres.create("seed%d" % self.seed)
        if self.setup == "redis" and not self.redis:
            self.redis = Redis(self.folder)
        proxy = Proxy(self.folder, self.postgres.port)
        self.to_postgres.append(proxy)
        words += ["--usage", "postgres://postgres@127.0.0.1:%d/seed%d" %
                  (proxy.port, self.seed)]
        if self.setup != "redis":
            return words + ["--store", "memory:./state"]
        proxy = Proxy(self.folder, self.redis.port)
        self.to_redis.append(proxy)
        return words + ["--state", "./state", "--store",
                        "redis://127.0.0.1:%d" % proxy.port]

    @staticmethod
    def insist(act):
        """Repeats until it succeeds. Returns false if it has given up."""
        return wait_for("an acknowledgement", act)

    # ---- faults ----

    def kill_daemon(self):
        daemon = self.rng.choice(self.daemons)
        daemon.kill()
        self.pause(0, 0.2 if self.kills else 1)
        daemon.start()

    def stop_daemon(self):
        daemon = self.rng.choice(self.daemons)
        daemon.pause()
        self.pause(0.5, 7)
        daemon.go_on()

    def kill_database(self):
        self.postgres.kill()
        self.pause(0, 6)
        self.postgres.start()

    def stop_database(self):
        stopped = self.postgres.pause()
        self.pause(0.5, 8)
        self.postgres.go_on(stopped)

    def lock_rows(self):
        """Another session has locked organisations, and the replies to what
        others do are lost."""
        session = self.postgres.lock("seed%d" % self.seed, "id LIKE '%%-%d'" %
                                     self.rng.randrange(3),
                                     self.rng.uniform(0.5, 3))
        self.pause(0.1, 0.5)
        self.swallow_replies()
        session.wait()

    def kill_both(self):
        daemon = self.rng.choice(self.daemons)
        self.postgres.kill()
        self.pause(0, 2)
        daemon.kill()
        self.pause(0, 1)
        starting = threading.Thread(target=daemon.start)
        starting.start()
        self.pause(0, 2)
        self.postgres.start()
        starting.join()

    def a_proxy(self):
        return self.rng.choice(self.to_postgres + self.to_redis)

    def cut_network(self):
        proxy = self.a_proxy()
        proxy.tell("cut")
        self.pause(0.5, 3)
        proxy.tell("pass")

    def swallow_replies(self):
        proxy = self.a_proxy()
        proxy.tell("hold")
        self.pause(0.1, 1)
        proxy.tell("cut")
        proxy.tell("pass")

    def drop_connections(self):
        self.a_proxy().tell("close")

    def fill_disk(self):
        daemon = self.rng.choice(self.daemons)
        daemon.fill_disk(True)
        self.pause(0.5, 4)
        if self.rng.random() < 0.5:
            daemon.kill()
            daemon.start()
        else:
            daemon.fill_disk(False)

    def step_clock(self):
        """The clocks stay within a day of each other: see SL_HOLD_KEPT."""
        self.rng.choice(self.daemons).step(self.rng.uniform(-0.45, 0.45) * DAY)

    def flush_redis(self):
        self.redis.run("FLUSHALL")

    def kill_redis(self):
        self.redis.kill()
        self.pause(0, 2)
        self.redis.start()

    def fail_over(self):
        """A replica becomes the master; the old one is gone, or read only for
        a while."""
        old, new = self.redis, Redis(self.folder)
        new.follow(old)
        if self.rng.random() < 0.5:
            old.kill()
        new.run("REPLICAOF", "NO", "ONE")
        old.run("REPLICAOF", "127.0.0.1", str(new.port))
        self.pause(0, 1)
        for proxy in self.to_redis:
            proxy.tell("move", "127.0.0.1:%d" % new.port)
        old.stop()
        self.redis = new

    def faults(self):
        if self.kills:
            return ["kill_daemon"]
        names = ["kill_daemon", "stop_daemon", "fill_disk", "step_clock"]
        if self.setup != "sqlite":
            names += ["kill_database", "stop_database", "kill_both",
                      "lock_rows", "cut_network", "swallow_replies",
                      "drop_connections"]
        if self.setup == "redis":
            names += ["flush_redis", "kill_redis", "fail_over"]
        chosen = os.environ.get("CHAOS_FAULTS")
        return [n for n in names if not chosen or n in chosen.split(",")]

    def pause(self, least, most):
        time.sleep(self.rng.uniform(least, most))

    # ---- the end ----

    def patience(self):
        """A run that has failed need not wait for the rest."""
        return 10 if self.wrong else PATIENCE

    def usage(self, daemon, account):
        status, text = daemon.ask("GET", "/v1/usage/org/%s?limit=units" %
                                  account.org)
        if status != 200 or '"degraded":true' in text:
            return None
        for meter in json.loads(text)["meters"]:
            if meter["name"] == "units":
                return meter
        return None

    def recorded(self, account):
        """The days of the bill, as the first daemon shows them."""
        meter = self.usage(self.daemons[0], account)
        return meter and sum(day["used"] for day in meter["days"])

    def exported(self):
        """The rows of each organisation; None: there is no answer."""
        status, text = self.daemons[0].ask("GET", "/v1/usage/export")
        if status != 200:
            return None
        rows = {}
        for line in text.splitlines():
            row = json.loads(line)
            rows.setdefault(row["org"], []).append(row)
        return rows

    def use_up(self, account):
        """Take what is left at both daemons, the last units one by one."""
        cost = 64
        refused = 0

        def step():
            nonlocal cost, refused
            for daemon in self.daemons:
                status, text = daemon.ask("POST", "/v1/check", {
                    "job": "work", "org": account.org, "plan": "free",
                    "cost": cost})
                verdict = json.loads(text) if status == 200 else {}
                if status == 0:
                    account.add(unknown=cost)
                elif verdict.get("allowed"):
                    account.add(acknowledged=cost)
                    refused = 0
                elif verdict.get("status") == 402:
                    refused += 1
                    cost = max(1, cost // 2)
            return refused > 2 and \
                (self.recorded(account) or 0) >= CAP - account.held

        return wait_for(account.org + " used up", step, self.patience())

    def overshoot(self):
        return sum(one.overshoot_before + one.overshoot()
                   for one in self.daemons)

    def judge(self, account):
        def is_right():
            used = self.recorded(account)
            return used is not None and account.acknowledged <= used <= \
                account.acknowledged + account.unknown

        if account.kind == "capped":
            self.use_up(account)
        if not wait_for(account.org, is_right, self.patience()):
            self.wrong.append(account.org)  # (1)
        used = self.recorded(account) or 0
        if account.kind == "capped" and \
                not CAP - account.held <= used <= CAP + self.overshoot():
            self.wrong.append("cap of " + account.org)  # (2)
        meter = self.usage(self.daemons[0], account) or {}
        print("#", account.org, "acknowledged", account.acknowledged,
              "unknown", account.unknown, "used", meter.get("used"), "overage",
              meter.get("overage"), "days", used, flush=True)

    def export_errors(self):
        """Returns what is wrong with the export; a hold may have ended since
        the days were read."""
        rows, wrong = self.exported(), []
        if rows is None:
            return ["no export"]
        for account in self.accounts:
            mine = rows.get(account.org, [])
            used = sum(row["used"] for row in mine)
            overage = sum(row["overage"] for row in mine)
            if len(mine) != 1 or used != self.recorded(account):
                wrong.append("export of %s: %s" % (account.org, mine))  # (4)
            if account.kind != "capped" and overage != max(0, used - INCLUDED):
                wrong.append("overage of " + account.org)  # (3)
        return wrong

    def lost_units(self, daemon):
        """None: it cannot be read, however long one waits."""
        lost = None

        def read():
            nonlocal lost
            lost = daemon.metric("sluice_usage_lost_units_total")
            return lost is not None

        wait_for("metrics of " + daemon.name, read)
        return lost

    def execute(self, count):
        clients = [Client(self, i) for i in range(6)]
        for one in clients:
            one.start()
        faults = []
        for _ in range(count):
            if not faults:
                faults = self.faults()
                self.rng.shuffle(faults)
            fault = faults.pop()
            print("#", fault, flush=True)
            getattr(self, fault)()
            self.pause(0.2, 1.5)
        self.over.set()
        for one in clients:
            one.join()
        for account in self.accounts:
            self.judge(account)
        if not wait_for("the export", lambda: not self.export_errors(),
                        self.patience()):
            self.wrong += self.export_errors()
        for daemon in self.daemons:
            lost = self.lost_units(daemon)
            if lost != 0:
                self.wrong.append("lost units of %s: %s" % (daemon.name, lost))
            if daemon.stop() != 0:
                self.wrong.append("end of " + daemon.name)
        return not self.wrong

    def close(self):
        for daemon in self.daemons:
            daemon.stop()
        for one in self.to_postgres + self.to_redis + [self.redis]:
            if one:
                one.stop()
        if self.wrong and os.environ.get("CHAOS_KEEP"):
            print("# kept:", self.folder, flush=True)
        else:
            remove(self.folder)


def main():
    setup, program = sys.argv[1], os.path.realpath(sys.argv[2])
    clock = os.path.realpath(sys.argv[3])
    long = os.environ.get("SL_LONG")
    seeds = sys.argv[4] if len(sys.argv) > 4 else ("1-40" if long else "1-1")
    first, _, last = seeds.partition("-")
    count = 12 if long else 3
    if setup == "kills":
        first, last, count = 1, 1, 92 if long else 10
    failed = number = 0
    for seed in range(int(first), int(last or first) + 1):
        run = Run(setup, program, clock, seed)
        try:
            good = run.execute(count)
        finally:
            run.close()
        number += 1
        failed += not good
        print("%sok %d - %s, seed %d%s" %
              ("" if good else "not ", number, setup, seed,
               "" if good else ": " + ", ".join(run.wrong)), flush=True)
    print("1..%d" % number)
    sys.exit(failed != 0)


main()
