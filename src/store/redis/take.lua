-- take.lua -- a set of limits, taken all or nothing, where the cells are.
--
-- The algorithms are in kinds.lua, which stands before this in one script.
--
-- KEYS  one for each part, each once
-- ARGV  errand ("take", "look", "each", "charge", "back", "reset"), the time in
--       microseconds ("~TIME" asks the server, and is the time where that
--       may not be asked), then twelve for each part:
--
--         kind shape count capacity span grain token cost when end after beside
--
--       Of a calendar, span is 0, grain the start of its period, token its
--       end, `end` the end of the one after it, and `after` the start of the
--       one before: the server's clock may be some way from the asker's.
--       `beside` is the number of the part before it whose use counts against
--       this one, too; 0 is none.
--
--       Behind them, if anything of a "take" is leased, four for each part:
--
--         want all left till
--
--       `want` is how much more is to be leased if the set is taken; the rest
--       is of a lease that ends with this: how much it was, what is left of it,
--       and when it would have died.
--
-- A value is "1:SHAPE:A:B:C", with ":D:E:F" behind it where something is
-- leased. What is of another shape, or no value of ours, counts as nothing, and
-- is replaced by what is taken next.
--
-- Answers: allowed, now, values that were none of ours, then for each part
-- outcome (0 allow, 1 deny, 2 never) remaining retry reset wait, in
-- microseconds; -1 is none. Behind them, if anything is leased, for each part
-- how much is, until when, and whether the lease that has ended was known (1).

local FOR_GOOD = 315360000000 -- ms; ten years, for what no clock ends

-- Ms that a value outlives what it says. A time that is handed in may stand
-- still while the server's runs on.
local asks_server = string.sub(ARGV[2], 1, 1) == "~"
local MARGIN = asks_server and 1000 or 86400000

-- ---- values ----

local function read_part(i)
    local at = 2 + (i - 1) * 12
    return {
        key = KEYS[i],
        kind = ARGV[at + 1], shape = ARGV[at + 2],
        count = tonumber(ARGV[at + 3]),
        capacity = tonumber(ARGV[at + 4]),
        span = tonumber(ARGV[at + 5]),
        grain = tonumber(ARGV[at + 6]), token = tonumber(ARGV[at + 7]),
        cost = tonumber(ARGV[at + 8]),
        when = tonumber(ARGV[at + 9]),
        finish = tonumber(ARGV[at + 10]),
        after = tonumber(ARGV[at + 11]),
        beside = tonumber(ARGV[at + 12]),
        algorithm = algorithm_of(ARGV[at + 1]),
    }
end

local function read_leases(s, text)
    local d, e, f = string.match(text, "^:(%d+):(%d+):(%d+)$")
    s.d, s.e, s.f = tonumber(d), tonumber(e), tonumber(f)
    return d and s.d <= MOST and s.e <= COUNT_MOST and s.f <= COUNT_MOST
end

-- The state of a key, and whether what is there is none of ours.
local function read(p)
    local nothing = { a = 0, b = 0, c = 0 }
    local value = redis.pcall("GET", p.key)
    if not value then
        return nothing, false
    elseif type(value) ~= "string" then
        return nothing, true
    end
    local shape, a, b, c, more =
        string.match(value, "^1:(%d+):(%d+):(%d+):(%d+)(.*)$")
    a, b, c = tonumber(a), tonumber(b), tonumber(c)
    if not shape or a > MOST or b > MOST + 1 or c > MOST then
        return nothing, true
    elseif shape ~= p.shape then
        return nothing, false
    end
    local state = { a = a, b = b, c = c }
    if more ~= "" and not read_leases(state, more) then
        return nothing, true
    end
    return state, false
end

local function write(p, s, now)
    if s.b == 0 and s.c == 0 then
        redis.call("DEL", p.key)
        return
    end
    local life = p.algorithm[3](p, s, now)
    local ttl = life and div(life, 1000) + MARGIN or FOR_GOOD
    local value =
        string.format("1:%s:%.0f:%.0f:%.0f", p.shape, s.a, s.b, s.c)
    if s.d then
        value = value .. string.format(":%.0f:%.0f:%.0f", s.d, s.e, s.f)
    end
    redis.call("SET", p.key, value,
        "PX", string.format("%.0f", min(ttl, FOR_GOOD)))
end

local function same(a, b)
    return a.a == b.a and a.b == b.b and a.c == b.c and a.d == b.d
        and a.e == b.e and a.f == b.f
end

-- ---- the set ----

local errand = ARGV[1]
local now = tonumber(string.match(ARGV[2], "%d+"))
if asks_server then
    local time = redis.pcall("TIME")
    if time[1] then
        now = tonumber(time[1]) * 1000000 + tonumber(time[2])
    end
end

local function judge(p)
    local take, adjust = p.algorithm[1], p.algorithm[2]
    if errand == "take" or errand == "each" then
        return take(p, p.state, p.cost, now)
    elseif errand == "look" then
        local would = take(p, p.state, p.cost, now)
        local r = take(p, p.state, 0, now)
        r.outcome, r.retry = would.outcome, would.retry
        return r
    elseif errand == "charge" then
        return adjust(p, p.state, p.cost, now, now)
    elseif errand == "back" then
        return adjust(p, p.state, -p.cost, min(p.when, now), now)
    elseif p.state.d then -- reset; what is leased stays used
        return adjust(p, p.state, -COUNT_MOST, now, now)
    end
    return take(p, { a = 0, b = 0, c = 0 }, 0, now)
end

local function keep(p, r)
    if errand == "reset" and not r.next.d then
        redis.call("DEL", p.key)
    elseif not same(r.next, p.found) then
        write(p, r.next, now)
    end
end

-- ---- leases ----

local leases = errand == "take" and #ARGV > 2 + 12 * #KEYS

local function end_lease(p, i)
    local at = 2 + 12 * #KEYS + (i - 1) * 4
    local lease = {
        want = tonumber(ARGV[at + 1]), all = tonumber(ARGV[at + 2]),
        left = tonumber(ARGV[at + 3]), till = tonumber(ARGV[at + 4]),
        has = 0, known = 1,
    }
    if lease.all > 0 then
        local known
        p.state, known = p.algorithm[4](p, p.state, lease, now)
        lease.known = known and 1 or 0
    end
    p.lease = lease
end

-- As much as is wanted, and there.
local function begin_lease(p, r)
    local n = min(p.lease.want, r.remaining)
    p.lease.till = 0
    if n > 0 then
        r.next, p.lease.till = p.algorithm[5](p, r.next, n, now)
        p.lease.has = n
    end
end

local parts, strange, allowed = {}, 0, true

-- What the part beside it has used is charged to a copy of its state, and that
-- is asked; the state itself is changed by the cost alone.
local function count_beside(p, r, cost)
    local other = parts[p.beside]
    if not other or other.capacity == other.result.remaining then
        return r
    end
    local take, adjust = p.algorithm[1], p.algorithm[2]
    local used = other.capacity - other.result.remaining
    local both = adjust(p, p.state, used, now, now).next
    local would = take(p, both, cost, now)
    local next = r.next
    if would.outcome ~= 0 then
        next = take(p, p.state, 0, now).next
    end
    if errand == "look" then
        local shown = take(p, both, 0, now)
        shown.outcome, shown.retry = would.outcome, would.retry
        would = shown
    end
    would.next = next
    return would
end

for i = 1, #KEYS do
    local p = read_part(i)
    local foreign
    p.state, foreign = read(p)
    p.found = p.state
    if leases then
        end_lease(p, i)
    end
    p.result = count_beside(p, judge(p), p.cost)
    strange = strange + (foreign and 1 or 0)
    if errand == "each" then
        keep(p, p.result) -- the next may be of the same key
    else
        allowed = allowed and p.result.outcome == 0
    end
    parts[i] = p
end

local reply = { allowed and 1 or 0, now, strange }
for _, p in ipairs(parts) do
    local r = p.result
    if not allowed and r.outcome == 0 then
        r = count_beside(p, p.algorithm[1](p, p.state, 0, now), 0)
        p.result = r
    end
    if leases and allowed then
        begin_lease(p, r)
    end
    if errand ~= "each" then
        keep(p, r)
    end
    reply[#reply + 1] = r.outcome
    reply[#reply + 1] = r.remaining
    reply[#reply + 1] = r.retry
    reply[#reply + 1] = r.reset
    reply[#reply + 1] = r.wait
end
if leases then
    for _, p in ipairs(parts) do
        reply[#reply + 1] = p.lease.has
        reply[#reply + 1] = p.lease.till
        reply[#reply + 1] = p.lease.known
    end
end
return reply
