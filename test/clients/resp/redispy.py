# redispy.py -- what Debian's python3-redis sees: redispy.py HOST PORT PASSWORD
# KEY
import sys

import redis

host, port, password, key = sys.argv[1:]
r = redis.Redis(host=host, port=int(port), password=password,
                client_name="py", decode_responses=True)
print("PONG" if r.ping() else "?")
for _ in range(4):
    print(*r.execute_command("CL.THROTTLE", key, 2, 1, 1))
print(*r.execute_command("CL.THROTTLE", key, 2, 1, 1, -1))
with r.pipeline(transaction=False) as pipe:
    for quantity in (1, 4, 1):
        pipe.execute_command("CL.THROTTLE", key + ":p", 4, 1, 1, quantity)
    for reply in pipe.execute():
        print(reply[0], reply[2])


def check(*words):
    flat = r.execute_command("SLUICE.CHECK", "GET", "/x", "user", key, *words)
    return dict(zip(flat[::2], flat[1::2]))


seen = check()
print(seen["allowed"], seen["status"], seen["limit"], seen["remaining"])
check("cost", 4)
seen = check()
print(seen["allowed"], seen["status"], seen["by"], seen["retry_after_ms"])
try:
    r.execute_command("NONSENSE")
except redis.ResponseError as why:
    print(str(why).split()[0])
