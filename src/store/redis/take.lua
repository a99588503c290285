-- take.lua -- a set of limits, taken all or nothing, where the cells are.
--
-- It is the last part of one script. src/store/meson.build has the order.
--
-- KEYS  one for each part, each once; with "hold" one more, its record; with
--       "settle", "extend" and "view" that alone
-- ARGV  op ("take", "hold", "look", "each", "charge", "back", "reset", or
--       one of those in holds.lua), the time in
--       microseconds ("~TIME" asks the server, and is the time where that
--       may not be asked), then twelve for each part:
--
--         kind shape count capacity span grain token cost when end after beside
--
--       Of a calendar, span is 0, grain the start of its period, token its
--       end, `end` the end of the one after it, and `after` the start of the
--       one before: the server's clock may be some way from the asker's.
--       A cost of -1 takes nothing, and is denied if nothing is left.
--       `beside` is the number of the part before it whose use counts against
--       this one, too; of a penalty, the part whose refusals are its failures;
--       0 is none. Of a penalty, grain is the time in which they count, token
--       the growth, and `end` the length of the first block.
--
--       Behind them, if anything of a "take" is leased, four for each part:
--
--         want all left till
--
--       `want` is how much more is to be leased if the set is taken; the rest
--       is of a lease that ends with this: how much it was, what is left of it,
--       and when it would have died.
--
-- Answers: allowed (1; 0 if not; 2 if not, and a hold expires within a second, so
-- that the refusal need not stand until its retry), now, values that were none of ours, then for each part
-- outcome (0 allow, 1 deny, 2 never) remaining retry reset wait, in
-- microseconds; -1 is none. Behind them, if anything is leased, for each part
-- how much is, until when, and whether the lease that has ended was known (1).
-- "WRONGTYPE KEY" instead: this key is of another type; nothing was taken.

if op == "settle" or op == "extend" or op == "view" then
    return holds().finish()
end

local count = op == "hold" and #KEYS - 1 or #KEYS

-- ---- the set ----

local function looks(p)
    return op == "look"
        or (p.least > p.cost and (op == "take" or op == "each" or op == "hold"))
end

local function look(p, state, cost)
    local take = p.algorithm[1]
    local would = take(p, state, cost, now)
    local r = take(p, state, 0, now)
    r.outcome, r.retry = would.outcome, would.retry
    return r
end

local function judge(p)
    local take, adjust = p.algorithm[1], p.algorithm[2]
    if looks(p) then
        return look(p, p.state, p.least)
    elseif op == "take" or op == "each" or op == "hold" then
        return take(p, p.state, p.cost, now)
    elseif op == "charge" then
        return adjust(p, p.state, p.cost, now, now)
    elseif op == "back" then
        return give_back(p, p.when)
    elseif p.state.d then -- reset
        return take(p, p.algorithm.reset(p, p.state, now), 0, now)
    end
    return take(p, { a = 0, b = 0, c = 0 }, 0, now)
end

-- Permits that are taken without a hold have no clock.
local function note_firm(p, r)
    if (op == "take" or op == "each" or op == "charge")
        and r.next.b > p.state.b then
        p.firm = true
    end
end

local function keep(p, r)
    if op == "reset" then
        if p.holds then
            holds().forget(p)
        end
        if not r.next.d then
            redis.call("DEL", p.key)
            return
        end
    end
    if p.kind == "permits" then
        note_firm(p, r)
    end
    if p.changed or not same(r.next, p.found) then
        write(p, r.next)
    end
end

-- ---- leases ----

local leases = op == "take" and #ARGV > 2 + 12 * #KEYS

local function end_lease(p, i)
    local at = 2 + 12 * #KEYS + (i - 1) * 4
    local lease = {
        want = tonumber(ARGV[at + 1]), all = tonumber(ARGV[at + 2]),
        left = tonumber(ARGV[at + 3]), till = tonumber(ARGV[at + 4]),
        has = 0, known = 1,
    }
    if lease.all > 0 then
        local known
        if p.holds and p.holds.r then
            p.holds.r = p.holds.r + lease.left * p.token
        end
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
local SOON, refused = 1000000, 0

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
    if looks(p) then
        would = look(p, both, cost)
    end
    would.next = next
    return would
end

-- Held units come back by themselves. (For units that count beside another part
-- there is no list.)
local function when_free(p)
    if p.holds and p.result.outcome == 1 and not parts[p.beside] then
        p.result.retry = holds().retry(p)
    end
end

for i = 1, count do
    local p = read_part(KEYS[i], ARGV, 2 + (i - 1) * 12)
    local foreign
    p.state, foreign = read(p)
    if p.alien then
        return redis.error_reply("WRONGTYPE " .. p.key)
    end
    p.found = p.state
    if p.holds then
        holds().step(p)
    end
    if p.holds and p.holds.x <= now then
        holds().expire(p)
    end
    if leases then
        end_lease(p, i)
    end
    p.result = count_beside(p, judge(p), p.least)
    when_free(p)
    strange = strange + (foreign and 1 or 0)
    if op == "each" then
        keep(p, p.result) -- the next may be of the same key
    else
        allowed = allowed and p.result.outcome == 0
    end
    if p.result.outcome ~= 0 and p.holds and p.holds.x - now <= SOON then
        refused = 2
    end
    parts[i] = p
end

-- A refusal that is not by a block is a failure for each penalty whose limit
-- has refused.
local function count_failures()
    for _, p in ipairs(parts) do
        if p.kind == "penalty" and p.result.outcome ~= 0 then
            return
        end
    end
    for _, p in ipairs(parts) do
        local of = parts[p.counts]
        if of and of.result.outcome ~= 0 then
            p.failed = p.algorithm[2](p, p.state, 1, now, now)
        end
    end
end

if not allowed and (op == "take" or op == "hold") then
    count_failures()
end

if op == "hold" and allowed then
    holds().begin(parts)
end

local reply = { allowed and 1 or refused, now, strange }
for _, p in ipairs(parts) do
    local r = p.failed or p.result
    if p.failed then
        p.result = r
    elseif not allowed and r.outcome == 0 then
        r = count_beside(p, p.algorithm[1](p, p.state, 0, now), 0)
        p.result = r
    end
    if leases and allowed then
        begin_lease(p, r)
    end
    if op ~= "each" then
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
