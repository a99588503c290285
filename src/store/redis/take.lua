-- take.lua -- a set of limits, taken all or nothing, where the cells are.
--
-- The algorithms are those of core/, line by line, at the quantum of doubles:
-- ticks of a microsecond, all numbers below 2^53. test/conform runs both on
-- the same questions and compares every answer.
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
-- A value is "1:SHAPE:A:B:C". What is of another shape, or no value of ours,
-- counts as nothing, and is replaced by what is taken next.
--
-- Answers: allowed, now, values that were none of ours, then for each part
-- outcome (0 allow, 1 deny, 2 never) remaining retry reset wait, in
-- microseconds; -1 is none.

local JITTER = 1000
local MOST = 9007199254740991
local COUNT_MOST = 4294967295
local FOR_GOOD = 315360000000 -- ms; ten years, for what no clock ends

-- Ms that a value outlives what it says. A time that is handed in may stand
-- still while the server's runs on.
local asks_server = string.sub(ARGV[2], 1, 1) == "~"
local MARGIN = asks_server and 1000 or 86400000

local fmod, max, min = math.fmod, math.max, math.min

-- ---- exact integers ----

-- a / b rounded down. fmod is exact, and so is the division of a multiple.
local function div(a, b)
    return (a - fmod(a, b)) / b
end

-- a * b / c rounded down; MOST or more if that is no exact integer. b is cut
-- into digits that are small enough for every product to stay below 2^53.
local function muldiv(a, b, c)
    local product = a * b
    if product <= MOST then
        return div(product, c)
    end
    local high, rest = div(a, c), fmod(a, c)
    local base, digits = 2, {}
    while base * 4 * c <= MOST do
        base = base * 2
    end
    while b > 0 do
        digits[#digits + 1] = fmod(b, base)
        b = div(b, base)
    end
    local whole, left = 0, 0
    for i = #digits, 1, -1 do
        local n = left * base + rest * digits[i]
        whole = whole * base + div(n, c) + high * digits[i]
        left = fmod(n, c)
        if whole > MOST then
            return MOST + 1, 0
        end
    end
    return whole, left
end

local function muldiv_up(a, b, c)
    local product = a * b
    if product <= MOST then
        local left = fmod(product, c)
        return (product - left) / c + (left > 0 and 1 or 0)
    end
    local whole, left = muldiv(a, b, c)
    return whole + (left > 0 and 1 or 0)
end

-- ---- time ----

-- The tick at which a take is judged, and that of the last write, mended.
local function judged(now, written)
    if written <= now then
        return now, written
    elseif written - now <= JITTER then
        return written, written
    end
    return now, now
end

local function till(tick, now)
    return min(max(tick - now, 0), MOST)
end

-- ---- token and leaky buckets: a written, b used ----

local function used_at(p, written, used, at)
    local drained
    if p.kind == "interval" then
        drained = (div(at, p.span) - div(written, p.span)) * p.count * p.token
    else
        drained = muldiv(at - written, p.count, p.grain)
    end
    return max(used - drained, 0)
end

local function bucket_when(p, written, used, most)
    local need = max(used - most, 0)
    if need == 0 then
        return written
    elseif p.kind == "interval" then
        local pour = p.count * p.token
        return (div(written, p.span) + div(need + pour - 1, pour)) * p.span
    end
    return written + muldiv_up(need, p.grain, p.count)
end

local function bucket_take(p, s, cost, now)
    local at, written = judged(now, s.a)
    local used = used_at(p, written, s.b, at)
    local room = p.capacity * p.token
    local r = { outcome = 0, retry = -1, wait = 0 }
    r.next = { a = written, b = s.b, c = 0 }
    local from_written, from_used = written, s.b
    if cost > p.capacity then
        r.outcome = 2
    elseif cost > 0 and used + cost * p.token > room then
        r.outcome = 1
        r.retry = till(
            bucket_when(p, written, s.b, room - cost * p.token), now)
    else
        if p.kind == "leaky" and used > 0 then
            r.wait = till(bucket_when(p, written, s.b, 0), now)
        end
        if cost > 0 then
            used = used + cost * p.token
            from_written, from_used = at, used
            r.next = { a = at, b = used, c = 0 }
        end
    end
    r.remaining = div(max(room - used, 0), p.token)
    r.reset = used > 0 and till(bucket_when(p, from_written, from_used, 0), now)
        or 0
    return r
end

local function bucket_adjust(p, s, delta, when, now)
    if delta == 0 then
        return bucket_take(p, s, 0, now)
    end
    local at, written = judged(now, s.a)
    local used = used_at(p, written, s.b, at) + delta * p.token
    local next = { a = at, b = min(max(used, 0), MOST), c = 0 }
    if next.b == 0 then
        next.a = 0
    end
    local r = bucket_take(p, next, 0, now)
    r.next = next
    return r
end

-- From now until nothing is owed.
local function bucket_life(p, s, now)
    return till(bucket_when(p, s.a, s.b, 0), now)
end

-- ---- fixed windows and quotas: a written, b taken ----

local function window_of(p, tick)
    if p.span > 0 then
        local start = tick - fmod(tick, p.span)
        return start, start + p.span
    elseif tick < p.grain then
        return p.after, p.grain
    elseif tick < p.token then
        return p.grain, p.token
    end
    return p.token, p.finish
end

local function window_take(p, s, cost, now)
    local at, written = judged(now, s.a)
    local start, finish = window_of(p, at)
    local taken = written >= start and s.b or 0
    local r = { outcome = 0, retry = -1, wait = 0 }
    r.reset = till(finish, now)
    r.next = { a = written, b = s.b, c = 0 }
    if cost > p.capacity then
        r.outcome = 2
    elseif cost > 0 and taken + cost > p.capacity then
        r.outcome = 1
        r.retry = r.reset
    elseif cost > 0 then
        taken = taken + cost
        r.next = { a = at, b = taken, c = 0 }
    end
    r.remaining = max(p.capacity - taken, 0)
    return r
end

local function window_adjust(p, s, delta, when, now)
    local at, written = judged(now, s.a)
    local start = window_of(p, at)
    local most = p.kind == "fixed" and COUNT_MOST or MOST + 1
    if delta == 0 or (delta < 0 and when < start) then
        return window_take(p, s, 0, now)
    end
    local taken = (written >= start and s.b or 0) + delta
    local next = { a = at, b = min(max(taken, 0), most), c = 0 }
    if next.b == 0 then
        next.a = 0
    end
    local r = window_take(p, next, 0, now)
    r.next = next
    return r
end

local function window_life(p, s, now)
    local _, finish = window_of(p, s.a)
    return till(finish, now)
end

-- ---- sliding windows: a index, b current, c previous ----

local function sliding_judged(p, s, now)
    local start = s.a * p.span
    local at, mended = judged(now, start)
    if mended == start then
        return at, s
    end
    return at,
        { a = div(at, p.span), b = min(s.b + s.c, COUNT_MOST), c = 0 }
end

local function rolled(p, s, at)
    local index = div(at, p.span)
    if index == s.a then
        return { a = s.a, b = s.b, c = s.c }
    elseif index == s.a + 1 then
        return { a = index, b = 0, c = s.b }
    end
    return { a = index, b = 0, c = 0 }
end

local function sliding_when(p, s, cost)
    local room = p.capacity - cost
    local next = (s.a + 1) * p.span
    if s.b <= room then
        return next - muldiv(p.span, room - s.b, s.c)
    end
    return next + p.span - muldiv(p.span, room, s.b)
end

local function sliding_take(p, s, cost, now)
    local at, old = sliding_judged(p, s, now)
    local v = rolled(p, old, at)
    local ahead = (v.a + 1) * p.span - at
    local left = max(p.capacity - v.b - muldiv_up(ahead, v.c, p.span), 0)
    local r = { outcome = 0, retry = -1, wait = 0, next = old }
    r.reset = till((v.a + 1) * p.span, now)
    if cost > p.capacity then
        r.outcome = 2
    elseif cost > left then
        r.outcome = 1
        r.retry = till(sliding_when(p, v, cost), now)
    elseif cost > 0 then
        v.b = v.b + cost
        left = left - cost
        r.next = v
    end
    r.remaining = left
    return r
end

local function sliding_adjust(p, s, delta, when, now)
    local at, old = sliding_judged(p, s, now)
    local past = div(when, p.span)
    local v = rolled(p, old, at)
    if delta == 0 or (delta < 0 and past + 1 < v.a) then
        return sliding_take(p, s, 0, now)
    end
    if delta < 0 and past < v.a then
        v.c = max(v.c + delta, 0)
    else
        v.b = min(max(v.b + delta, 0), COUNT_MOST)
    end
    if v.b == 0 and v.c == 0 then
        v.a = 0
    end
    local r = sliding_take(p, v, 0, now)
    r.next = v
    return r
end

local function sliding_life(p, s, now)
    return till((s.a + 2) * p.span, now)
end

-- ---- permits and levels: b held ----

local function permits_take(p, s, cost)
    local free = max(p.capacity - s.b, 0)
    local r = { outcome = 0, retry = -1, reset = -1, wait = 0, next = s }
    if cost > p.capacity then
        r.outcome = 2
    elseif cost > free then
        r.outcome = 1
    elseif cost > 0 then
        r.next = { a = 0, b = s.b + cost, c = 0 }
        free = free - cost
    end
    r.remaining = free
    return r
end

local function permits_adjust(p, s, delta)
    local held = min(max(s.b + delta, 0), MOST + 1)
    return permits_take(p, { a = 0, b = held, c = 0 }, 0)
end

local function permits_life()
    return nil
end

local bucket = { bucket_take, bucket_adjust, bucket_life }
local window = { window_take, window_adjust, window_life }
local permits = { permits_take, permits_adjust, permits_life }
local algorithms = {
    bucket = bucket,
    interval = bucket,
    leaky = bucket,
    fixed = window,
    quota = window,
    sliding = { sliding_take, sliding_adjust, sliding_life },
    permits = permits,
    level = permits,
}

-- ---- values ----

local function read_part(i)
    local at = 2 + (i - 1) * 12
    return {
        key = KEYS[i],
        kind = ARGV[at + 1],
        shape = ARGV[at + 2],
        count = tonumber(ARGV[at + 3]),
        capacity = tonumber(ARGV[at + 4]),
        span = tonumber(ARGV[at + 5]),
        grain = tonumber(ARGV[at + 6]),
        token = tonumber(ARGV[at + 7]),
        cost = tonumber(ARGV[at + 8]),
        when = tonumber(ARGV[at + 9]),
        finish = tonumber(ARGV[at + 10]),
        after = tonumber(ARGV[at + 11]),
        beside = tonumber(ARGV[at + 12]),
        algorithm = algorithms[ARGV[at + 1]],
    }
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
    local shape, a, b, c = string.match(value, "^1:(%d+):(%d+):(%d+):(%d+)$")
    a, b, c = tonumber(a), tonumber(b), tonumber(c)
    if not shape or a > MOST or b > MOST + 1 or c > MOST then
        return nothing, true
    elseif shape ~= p.shape then
        return nothing, false
    end
    return { a = a, b = b, c = c }, false
end

local function write(p, s, now)
    if s.b == 0 and s.c == 0 then
        redis.call("DEL", p.key)
        return
    end
    local life = p.algorithm[3](p, s, now)
    local ttl = life and div(life, 1000) + MARGIN or FOR_GOOD
    redis.call("SET", p.key,
        string.format("1:%s:%.0f:%.0f:%.0f", p.shape, s.a, s.b, s.c),
        "PX", string.format("%.0f", min(ttl, FOR_GOOD)))
end

local function same(a, b)
    return a.a == b.a and a.b == b.b and a.c == b.c
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
    end
    return take(p, { a = 0, b = 0, c = 0 }, 0, now) -- reset
end

local function keep(p, r)
    if errand == "reset" then
        redis.call("DEL", p.key)
    elseif not same(r.next, p.state) then
        write(p, r.next, now)
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
    if errand ~= "each" then
        keep(p, r)
    end
    reply[#reply + 1] = r.outcome
    reply[#reply + 1] = r.remaining
    reply[#reply + 1] = r.retry
    reply[#reply + 1] = r.reset
    reply[#reply + 1] = r.wait
end
return reply
