-- holds.lua -- takes that are held: how they begin, expire and end. What a hold
-- is stands in store/store.h. It stands behind cells.lua in one script.
--
-- The record of a hold is a hash under the name that the asker gives it (the
-- last of KEYS), in the slot of its cells; when it has ended, a string that says
-- how. What is held of a key is a member of the sorted set beside it,
--
--   ID:SHAPE:COST:M0:M1:M2   by the microsecond at which it expires
--
-- (or, of permits, of the set that they are: ID:COST). M0 to M2 are the mark of
-- the take. Buckets: when it was, what was used right after it, with R of then,
-- and G of then. Windows: their beginning and end. A value says in ";R;X;Z;G"
-- that something is held: R is how much was given back to a bucket meanwhile,
-- and G how much of that by no hold (see core/hold.h); X is when the first hold
-- expires, Z when the last does. So whoever decides knows without asking whether
-- one has expired, and gives it back first, as of its expiry.
--
-- Where nothing is held, nothing of this is made or asked.

local REMEMBER = 60000 -- ms: how it ended, after it would have expired
local COST_MOST = 562949953421312 -- of a settlement

local function make_holds()
    -- ---- marks ----

    local function is_bucket(p)
        return p.kind == "bucket" or p.kind == "interval" or p.kind == "leaky"
    end

    local function mark_of(p, s)
        if is_bucket(p) then
            return s.a, s.b + p.holds.r, p.holds.g
        elseif p.kind == "sliding" then
            return s.a * p.span, (s.a + 1) * p.span, 0
        elseif p.kind == "fixed" or p.kind == "quota" then
            local start, finish = p.algorithm[6](p, s.a)
            return start, finish, 0
        end
        return 0, 0, 0
    end

    -- What is surely still used of it comes back. A clock that has stepped back
    -- behind the take can't tell: then nothing does.
    local function bucket_unhold(p, s, amount, m, ends)
        local used_at, drained, state =
            p.algorithm[6], p.algorithm[7], p.algorithm[8]
        local at, h = max(ends, s.a), p.holds
        if not h then -- the value was lost, and with it what was used
            return s
        end
        local left = max(m[1] - h.r, m.cost * p.token - (h.g - m[2]), 0)
        local sure = drained(p, m[0], left, max(at, m[0]))
        local back = min(amount * p.token, sure)
        if back <= 0 or now < m[0] - JITTER then
            return s
        end
        local used = used_at(p, s, s.a, at)
        local next = state(s, at, used)
        local floor = next.d and (next.e + next.f) * p.token or 0
        next.b = max(used - back, floor)
        if next.b == 0 then
            next.a = 0
        end
        h.r = h.r + used - next.b
        return next
    end

    local function unhold(p, s, amount, m, ends)
        local b, c = s.b, s.c
        if is_bucket(p) then
            return bucket_unhold(p, s, amount, m, ends)
        elseif p.kind == "sliding" then
            if s.a * p.span == m[0] then
                b = max(b - amount, 0)
            elseif (s.a - 1) * p.span == m[0] then
                c = max(c - amount, 0)
            end
        elseif p.kind == "permits" or p.kind == "level"
            or (s.a >= m[0] and s.a < m[1]) then
            b = max(b - amount, 0)
        end
        return { a = (b + c > 0) and s.a or 0, b = b, c = c }
    end

    -- ---- what is held of a key ----

    -- When the next one expires, if there is one.
    local function renew(p)
        local next = redis.call("ZRANGEBYSCORE", set_of(p), 0, "+inf",
            "WITHSCORES", "LIMIT", 0, 1)
        p.changed = true
        if next[2] then
            p.holds.x = tonumber(next[2])
        else
            p.holds = nil
        end
    end

    -- What it took, and its mark; nothing if it is none of this limit's.
    local function read_member(p, member)
        if p.kind == "permits" then
            return { cost = tonumber(string.match(member, ":(%d+)$")) or 0 }
        end
        local shape, cost, m0, m1, m2 =
            string.match(member, ":(%d+):(%d+):(%d+):(%d+):(%d+)$")
        return shape == p.shape and { cost = tonumber(cost),
            [0] = tonumber(m0), tonumber(m1), tonumber(m2) }
    end

    -- What has expired is given back, in order.
    local function expire(p)
        local list = redis.call("ZRANGEBYSCORE", set_of(p), 0, whole(now),
            "WITHSCORES")
        for i = 1, #list, 2 do
            local m = read_member(p, list[i])
            if m then
                p.state = unhold(p, p.state, m.cost, m, tonumber(list[i + 1]))
            end
        end
        redis.call("ZREMRANGEBYSCORE", set_of(p), 0, whole(now))
        renew(p)
    end

    -- Until so many permits have expired that `cost` are free; -1: never, or
    -- too many are out to look through.
    local function soonest(p, cost)
        local list = redis.call("ZRANGEBYSCORE", p.key, 0, "+inf",
            "WITHSCORES", "LIMIT", 0, 257)
        local need = p.state.b + cost - p.capacity
        if #list > 512 then
            return -1
        end
        for i = 1, #list, 2 do
            need = need - read_member(p, list[i]).cost
            if need <= 0 then
                return till(tonumber(list[i + 1]), now)
            end
        end
        return -1
    end

    -- A reset forgets what is held with what is used.
    local function forget(p)
        if p.holds and p.kind ~= "permits" then
            redis.call("DEL", set_of(p))
        end
        p.holds = nil
    end

    -- The server's clock has stepped back behind the value. A bucket has drained
    -- for longer than the clock shows; what was held in a window that is over,
    -- or is not the one of now, does not come back.
    local function step(p)
        local s, span = p.state, p.span
        local last = p.kind == "sliding" and s.a * span or s.a
        if last <= now + JITTER then
            return
        elseif is_bucket(p) then
            local drained = p.kind == "interval"
                and (div(last - now, span) + 1) * p.count * p.token
                or muldiv_up(last - now, p.count, p.grain)
            p.holds.r = min(p.holds.r + drained, 2 * MOST)
            p.holds.g = min(p.holds.g + drained, 2 * MOST)
        elseif p.kind == "sliding"
            or p.algorithm[6](p, last) ~= p.algorithm[6](p, now) then
            forget(p)
        end
        p.changed = true
        p.state = p.algorithm[1](p, s, 0, now).next
    end

    -- ---- beginning ----

    local function join(p, s, id, expires)
        if not p.holds then
            if p.kind ~= "permits" then
                redis.call("DEL", set_of(p)) -- of a value that was lost
            end
            p.holds = { r = 0, x = expires, z = expires, g = 0 }
        end
        local h = p.holds
        h.x = min(h.x, expires)
        h.z = max(h.z or 0, expires)
        p.changed = true
        if p.kind == "permits" then
            p.member = id .. ":" .. whole(p.cost)
            p.expires = expires
            return
        end
        local m0, m1, m2 = mark_of(p, s)
        p.member = string.format("%s:%s:%.0f:%.0f:%.0f:%.0f", id, p.shape,
            p.cost, m0, m1, m2)
        redis.call("ZADD", set_of(p), whole(expires), p.member)
    end

    -- ARGV behind the parts: the id, how long, which parts are not held (as a
    -- number of bits), and the name of each limit.
    local function begin(parts)
        local at = 2 + 12 * #parts
        local id, life = ARGV[at + 1], tonumber(ARGV[at + 2])
        local firm, n, firms = tonumber(ARGV[at + 3]), 0, 0
        local record = {
            "expires", whole(now + life), "life", whole(life), "taken",
            whole(now),
        }
        local function note(number, fields)
            for k, v in pairs(fields) do
                record[#record + 1] = k .. number
                record[#record + 1] = v
            end
        end
        for i, p in ipairs(parts) do
            local words = 2 + (i - 1) * 12
            local text = table.concat(ARGV, " ", words + 1, words + 12)
            if fmod(div(firm, 2 ^ (i - 1)), 2) == 0 then
                n = n + 1
                if p.cost > 0 then
                    join(p, p.result.next, id, now + life)
                end
                note(n, { key = p.key, limit = ARGV[at + 3 + i],
                    member = p.member or "", words = text })
            elseif p.cost > 0 then
                p.firm = true
                firms = firms + 1
                note(firms, { firm_key = p.key, firm_words = text })
            end
        end
        redis.call("HSET", KEYS[#KEYS], "parts", n, "firms", firms,
            unpack(record))
        redis.call("PEXPIRE", KEYS[#KEYS],
            whole(min(div(life, 1000) + MARGIN + REMEMBER, FOR_GOOD)))
    end

    -- ---- ending ----

    local STATES = { settled = 2, released = 3 }

    -- The record, or a reply that says why there is none.
    local function find()
        local kind = redis.call("TYPE", KEYS[1]).ok
        if kind == "string" then
            return nil, STATES[redis.call("GET", KEYS[1])] or 0
        elseif kind ~= "hash" then
            return nil, 0
        end
        local list, record = redis.call("HGETALL", KEYS[1]), {}
        for i = 1, #list, 2 do
            record[list[i]] = list[i + 1]
        end
        if not record.expires or not record.parts then
            return nil, 0
        end
        record.expires = tonumber(record.expires)
        return record, record.expires <= now and 4 or 1
    end

    local function read_then(key, text)
        local words = {}
        for word in string.gmatch(text, "%S+") do
            words[#words + 1] = word
        end
        local p = read_part(key, words, 0)
        p.state = read(p)
        p.found = p.state
        p.held = true
        if p.holds then
            step(p)
        end
        if p.holds and p.holds.x <= now then
            expire(p)
        end
        return p
    end

    local function read_held(record, i)
        local p = read_then(record["key" .. i], record["words" .. i])
        p.limit, p.member = record["limit" .. i], record["member" .. i]
        return p
    end

    local function write_held(p)
        if not p.other and (p.changed or not same(p.state, p.found)) then
            write(p, p.state)
        end
    end

    -- What was taken with a hold and not held: the take came too late for its
    -- asker, and never was.
    local function undo_firm(record)
        for i = 1, tonumber(record.firms or 0) do
            local p = read_then(record["firm_key" .. i],
                record["firm_words" .. i])
            p.state = give_back(p, tonumber(record.taken)).next
            write_held(p)
        end
    end

    -- What it came to. ARGV: errand, time, "1" for a release ("2": of a take that
    -- came too late), "1" for what was held where nothing is said, the cost for
    -- all, then limits and costs.
    -- Permits of which nothing is said are of a limit that is no longer there:
    -- nobody else would ever give them back.
    local function actual(p)
        local cost = ARGV[4] == "1" and p.cost or tonumber(ARGV[5])
        if ARGV[4] == "1" and p.kind == "permits" then
            cost = 0
        end
        for i = 6, #ARGV, 2 do
            if ARGV[i] == p.limit then
                cost = tonumber(ARGV[i + 1])
            end
        end
        if ARGV[3] ~= "0" then
            return 0
        elseif cost > p.cost and cost > COST_MOST then
            return max(p.cost, COST_MOST)
        end
        return cost
    end

    -- It is still there unless somebody has reset the key.
    local function leave(p)
        if p.member == "" or redis.call("ZREM", set_of(p), p.member) == 0 then
            return false
        end
        return true
    end

    local function settle(p)
        local take, adjust = p.algorithm[1], p.algorithm[2]
        local cost, over = actual(p), 0
        local there = leave(p)
        if there and cost < p.cost then
            p.state = unhold(p, p.state, p.cost - cost,
                read_member(p, p.member), now)
        elseif cost > p.cost then
            local more = cost - p.cost
            over = take(p, p.state, more, now).outcome == 0 and 0 or 1
            p.state = adjust(p, p.state, more, now, now).next
        end
        if there and p.kind == "permits" and cost > 0 then
            p.firm = true -- what was used for good has no clock
        end
        if there and p.holds then
            renew(p)
        end
        return cost, over
    end

    -- Of a value that was lost nothing is held any more.
    local function extend(p, expires)
        if leave(p) and p.holds then
            redis.call("ZADD", set_of(p), whole(expires), p.member)
            p.holds.z = max(p.holds.z or 0, expires)
            renew(p)
        end
    end

    local function conclude(record)
        local life = div(record.expires - now, 1000) + MARGIN + REMEMBER
        life = whole(min(life, FOR_GOOD))
        if errand == "settle" then
            redis.call("SET", KEYS[1],
                ARGV[3] ~= "0" and "released" or "settled", "PX", life)
        elseif errand == "extend" then
            redis.call("HSET", KEYS[1], "expires", whole(record.expires))
            redis.call("PEXPIRE", KEYS[1], life)
        end
    end

    -- Answers: what was found (as enum sl_hold_state), now, until it expires,
    -- then for each part its key, the limit's name and numbers, what was held,
    -- what it came to, whether that is over, and its answer.
    local function finish()
        local record, state = find()
        if state ~= 1 then
            return { state, now, -1 }
        end
        if errand == "extend" then
            record.expires = now + tonumber(ARGV[3])
        end
        local reply = { state, now, record.expires - now }
        for i = 1, tonumber(record.parts) do
            local p = read_held(record, i)
            local cost, over = p.cost, 0
            if p.other then -- the key is another limit's by now: not touched
                cost = errand == "settle" and actual(p) or cost
            elseif errand == "settle" then
                cost, over = settle(p)
            elseif errand == "extend" then
                extend(p, record.expires)
            end
            write_held(p)
            local r = p.algorithm[1](p, p.state, 0, now)
            for _, v in ipairs({ p.key, p.limit, p.count, p.capacity, p.cost, cost, over, r.outcome,
                r.remaining, r.retry, r.reset, r.wait }) do
                reply[#reply + 1] = v
            end
        end
        if errand == "settle" and ARGV[3] == "2" then
            undo_firm(record)
        end
        conclude(record)
        return reply
    end

    return { expire = expire, soonest = soonest, forget = forget,
        begin = begin, finish = finish, step = step }
end

local made_holds
local function holds()
    made_holds = made_holds or make_holds()
    return made_holds
end
