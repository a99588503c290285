-- kinds.lua -- the algorithms of core/, line by line, at the quantum of doubles:
-- ticks of a microsecond, all numbers below 2^53. It stands before take.lua in
-- one script; test/conform compares every answer with core/.
--
-- A part `p` has the numbers of its limit, a state `s` is three of its own, and
-- a result has outcome, remaining, retry, reset, wait and the next state.

local JITTER = 1000
local MOST = 9007199254740991
local COUNT_MOST = 4294967295
local SLOT = 500000 -- of leases: they live for one to two of these

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

-- Each family of algorithms is made when the first part needs it: a script is
-- run from its first line, and most sets need one or two.
local families = {}

-- ---- token and leaky buckets: a written, b used ----
--
-- What is leased (see store/lease_cache.h) stays used until it is given back or its time
-- is over: d is the slot of the last lease, e what was leased in the slot
-- before it, f what in it, in tokens. A lease dies two slots later. d is nil if
-- nothing is leased.

function families.bucket()
    local function drained(p, from, used, to)
        if used == 0 then
            return 0
        elseif p.kind == "interval" then
            local periods = div(to, p.span) - div(from, p.span)
            return max(used - periods * p.count * p.token, 0)
        end
        return max(used - muldiv(to - from, p.count, p.grain), 0)
    end

    local function fallen(p, from, used, most)
        local need = max(used - most, 0)
        if need == 0 then
            return from
        elseif p.kind == "interval" then
            local pour = p.count * p.token
            return (div(from, p.span) + div(need + pour - 1, pour)) * p.span
        end
        return from + muldiv_up(need, p.grain, p.count)
    end

    -- What is leased keeps what is used from falling below it.
    local function used_at(p, s, written, at)
        local from, used = written, s.b
        if s.d then
            local floor = (s.e + s.f) * p.token
            for edge = (s.d + 1) * SLOT, (s.d + 2) * SLOT, SLOT do
                if at < edge then
                    return max(drained(p, from, used, at), floor)
                elseif from < edge then
                    used = max(drained(p, from, used, edge), floor)
                    from = edge
                end
                floor = s.f * p.token
            end
        end
        return drained(p, from, used, at)
    end

    local function bucket_when(p, s, written, most)
        local from, used = written, s.b
        if s.d then
            local floor = (s.e + s.f) * p.token
            for edge = (s.d + 1) * SLOT, (s.d + 2) * SLOT, SLOT do
                if from < edge then
                    local tick = fallen(p, from, used, most)
                    if floor <= most and tick < edge then
                        return tick
                    end
                    used = max(drained(p, from, used, edge), floor)
                    from = edge
                end
                floor = s.f * p.token
            end
        end
        return fallen(p, from, used, most)
    end

    -- The state that is written at `at`, with the leases that still live.
    local function bucket_state(s, at, used)
        local next = { a = at, b = used, c = 0 }
        local slot = s.d and div(at, SLOT)
        if slot and slot <= s.d then
            next.d, next.e, next.f = s.d, s.e, s.f
        elseif slot and slot == s.d + 1 and s.f > 0 then
            next.d, next.e, next.f = slot, s.f, 0
        end
        return next
    end

    -- A clock that has stepped back gives all leases a new life.
    local function bucket_mended(s, written)
        if written == s.a then
            return s
        end
        local next = { a = written, b = s.b, c = 0 }
        if s.d then
            next.d, next.e, next.f = div(written, SLOT), 0, s.e + s.f
        end
        return next
    end

    local function bucket_take(p, s, cost, now)
        local at, written = judged(now, s.a)
        s = bucket_mended(s, written)
        local used = used_at(p, s, written, at)
        local room = p.capacity * p.token
        local r = { outcome = 0, retry = -1, wait = 0, next = s }
        if cost > p.capacity then
            r.outcome = 2
        elseif cost > 0 and used + cost * p.token > room then
            r.outcome = 1
            r.retry = till(bucket_when(p, s, written, room - cost * p.token),
                now)
        else
            if p.kind == "leaky" and used > 0 then
                r.wait = till(bucket_when(p, s, written, 0), now)
            end
            if cost > 0 then
                used = used + cost * p.token
                s = bucket_state(s, at, used)
                r.next = s
            end
        end
        r.remaining = div(max(room - used, 0), p.token)
        r.reset = 0
        if used > 0 then
            r.reset = till(bucket_when(p, s, s.a, 0), now)
        end
        return r
    end

    local function bucket_adjust(p, s, delta, when, now)
        if delta == 0 then
            return bucket_take(p, s, 0, now)
        end
        local at, written = judged(now, s.a)
        s = bucket_mended(s, written)
        local used = used_at(p, s, written, at) + delta * p.token
        local next = bucket_state(s, at, 0)
        local floor = next.d and (next.e + next.f) * p.token or 0
        next.b = min(max(used, floor), MOST)
        if next.b == 0 then
            next.a = 0
        end
        local r = bucket_take(p, next, 0, now)
        r.next = next
        return r
    end

    -- From now until nothing is owed.
    local function bucket_life(p, s, now)
        return till(bucket_when(p, s, s.a, 0), now)
    end

    -- A lease is over before its time: what is left of it comes back, and the
    -- rest may be refilled. The state, and whether it was still known.
    local function bucket_end(p, s, lease, now)
        local at, written = judged(now, s.a)
        s = bucket_mended(s, written)
        local next = bucket_state(s, at, used_at(p, s, written, at))
        local slot = lease.till / SLOT - 2
        local field = next.d and (slot == next.d and "f"
            or slot == next.d - 1 and "e")
        if not field or next[field] < lease.all then
            return s, false
        end
        next[field] = next[field] - lease.all
        next.b = next.b - lease.left * p.token
        if next.e + next.f == 0 then
            next.d, next.e, next.f = nil, nil, nil
        end
        if next.b == 0 then
            next.a = 0
        end
        return next, true
    end

    -- `n` more are taken, and leased. The state, and the end of the lease.
    local function bucket_lease(p, s, n, now)
        local next = bucket_take(p, s, n, now).next
        if not next.d then
            next.d, next.e, next.f = div(next.a, SLOT), 0, 0
        end
        next.f = next.f + n
        return next, (next.d + 2) * SLOT
    end

    -- What is leased stays used.
    local function bucket_reset(p, s, now)
        return bucket_adjust(p, s, -COUNT_MOST, now, now).next
    end

    return { bucket_take, bucket_adjust, bucket_life, bucket_end,
        bucket_lease, used_at, drained, bucket_state, reset = bucket_reset }
end

-- ---- permits and levels: b held ----

function families.permits()
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

    return { permits_take, permits_adjust, permits_life }
end

-- ---- penalties: a end of the last block in ms, b failures, c time of the first
-- of them in ms and blocks in a row ----

function families.penalty()
    local MS, LEVELS, ROW = 1000, 64, 128

    local function unpacked(p, s, now)
        local level = fmod(s.c, ROW)
        local v = { over = s.a * MS, first = (s.c - level) / ROW * MS,
            failures = s.b, level = level }
        local ms = now - fmod(now, MS)
        if v.first > now + JITTER then
            v.first, v.stepped = ms, true
        end
        if v.over - p.span > ms + MS + JITTER then
            v.over, v.stepped = ms + p.span, true
        end
        return v
    end

    local function packed(v)
        return { a = v.over / MS, b = v.failures,
            c = v.first / MS * ROW + v.level }
    end

    local function forget(p, v, now)
        if now - v.first >= p.grain then
            v.failures = 0
        end
        if v.failures == 0 then
            v.first = 0
        end
        if now - v.over >= p.span then
            v.level = 0
        end
        if v.level == 0 then
            v.over = 0
        end
    end

    local function block(p, v, now)
        v.level = min(v.level + 1, LEVELS)
        local length = p.finish
        for _ = 2, v.level do
            if length >= p.span then
                break
            end
            length = length * p.token
        end
        v.over = now + min(length, p.span)
        v.over = v.over - fmod(v.over, MS)
        v.failures, v.first = 0, 0
    end

    local function answer(p, v, next, now)
        forget(p, v, now)
        local r = { outcome = 0, remaining = 0, retry = -1, reset = 0,
            wait = 0, next = next }
        if v.failures > 0 then
            r.reset = v.first + p.grain - now
        end
        if v.level > 0 then
            r.reset = max(r.reset, v.over + p.span - now)
        else
            r.remaining = max(p.capacity - v.failures, 0)
        end
        if v.over > now then
            r.outcome = 1
            r.retry = v.over - now
        end
        return r
    end

    local function penalty_take(p, s, _, now)
        local v = unpacked(p, s, now)
        return answer(p, v, v.stepped and packed(v) or s, now)
    end

    local function penalty_adjust(p, s, delta, _, now)
        local v = unpacked(p, s, now)
        local next, begins = v.stepped and packed(v) or s, false
        if delta ~= 0 then
            forget(p, v, now)
            if delta < 0 then
                v.failures = max(v.failures + delta, 0)
            elseif v.over <= now then
                if v.failures == 0 then
                    v.first = now - fmod(now, MS)
                end
                v.failures = v.failures + delta
                begins = v.failures >= p.count
                if begins then
                    block(p, v, now)
                end
            end
            forget(p, v, now)
            next = packed(v)
        end
        local r = answer(p, v, next, now)
        r.outcome = 0
        r.wait = begins and r.retry or 0
        return r
    end

    local function penalty_life(p, s, now)
        return penalty_take(p, s, 0, now).reset
    end

    return { penalty_take, penalty_adjust, penalty_life }
end

local family_of = {
    bucket = "bucket", interval = "bucket", leaky = "bucket",
    fixed = "window", quota = "window", sliding = "sliding",
    permits = "permits", level = "permits", penalty = "penalty",
}
local made = {}

local function algorithm_of(kind)
    local family = family_of[kind]
    made[family] = made[family] or families[family]()
    return made[family]
end
