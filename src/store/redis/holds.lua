-- holds.lua -- takes that are held: how they begin, expire and end. What a hold
-- is stands in store/store.h. It stands behind cells.lua in one script.
--
-- The record of a hold is a hash under the name that the asker gives it (the
-- last of KEYS), in the slot of its cells; when it has ended, a string that says
-- how. What is held of a key is a member of the sorted set beside it,
--
--   NAME:SHAPE:COST:M0:M1:M2:LIFE   by the microsecond at which it expires
--
-- (or, of permits, of the set that they are: NAME:COST:LIFE). NAME is that of the
-- record behind "sluice:hold:", LIFE the longest that it was ever held for at
-- once. M0 to M2 are the mark of the take. Buckets: when it was, what was used
-- right after it, with R of then, and G of then. Windows: their beginning and
-- end. A value says in ";R;X;Z;G;T" that something is held: R is how much was
-- given back to a bucket meanwhile, and G how much of that by no hold (see
-- core/hold.h); X is when the first hold expires, Z when the last does; T is when
-- that was written, by which a clock that steps back is found out. So a
-- decision knows without a read whether a hold has expired, and refunds it first,
-- as of its expiry.
--
-- Where nothing is held, nothing of this is made or asked.

local REMEMBER = 60000 -- ms: how it ended, after it would have expired
local COST_MOST = 562949953421312 -- of a settlement
local RECORD = "sluice:hold:"

-- So many members are given back, or looked through, by one call: it keeps all
-- others waiting.
local EXPIRE_MOST, PERMITS_MOST, LOOK_MOST = 500, 1000, 100

local function make_holds()
    local marks = make_marks()
    local is_bucket, mark_of, unhold = marks.is_bucket, marks.of, marks.unhold

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

    -- What it took, its mark, and how long it lasts; nothing if it is none of
    -- this limit's.
    local function read_member(p, member)
        if p.kind == "permits" then
            local cost, life = string.match(member, ":(%d+):(%d+)$")
            return cost and { cost = tonumber(cost), life = tonumber(life) }
        end
        local shape, cost, m0, m1, m2, life =
            string.match(member, ":(%d+):(%d+):(%d+):(%d+):(%d+):(%d+)$")
        return shape == p.shape and { cost = tonumber(cost),
            life = tonumber(life), [0] = tonumber(m0), tonumber(m1),
            tonumber(m2) }
    end

    -- From the first to expire after `from` on: `visit` is given each, and stops
    -- it by an answer. (What is no hold has a score of zero at the most.)
    local function visit_held(p, from, most, visit)
        local list = redis.call("ZRANGEBYSCORE", set_of(p), "(" .. whole(from),
            "+inf", "WITHSCORES", "LIMIT", 0, most)
        for i = 1, #list, 2 do
            local m = read_member(p, list[i])
            local answer = m and visit(m, tonumber(list[i + 1]), list[i])
            if answer then
                return answer
            end
        end
    end

    local function record_of(member)
        return RECORD .. (string.match(member, "^{%d+}:%x+")
            or string.match(member, "^%x+") or "")
    end

    -- What has expired is given back, in order, and its record says so: a clock
    -- that steps back does not hold it again. Of very many some are left for the
    -- next call.
    local function expire(p)
        local list = redis.call("ZRANGEBYSCORE", set_of(p), "(0", whole(now),
            "WITHSCORES", "LIMIT", 0, EXPIRE_MOST)
        local gone = {}
        for i = 1, #list, 2 do
            local m = read_member(p, list[i])
            gone[#gone + 1] = list[i]
            redis.call("SET", record_of(list[i]), "expired", "XX", "KEEPTTL")
            if m then
                p.state = unhold(p, p.state, m.cost, m, tonumber(list[i + 1]))
            end
        end
        if #gone > 0 then
            redis.call("ZREM", set_of(p), unpack(gone))
        end
        renew(p)
        p.late = p.holds and p.holds.x <= now
    end

    -- Until so many permits have expired that `cost` are free; -1: never, or
    -- it takes too many of them.
    local function soonest(p, cost)
        local need = p.state.b + cost - p.capacity
        return visit_held(p, 0, min(need, PERMITS_MOST), function(m, expires)
            need = need - m.cost
            return need <= 0 and till(expires, now)
        end) or -1
    end

    -- Until a take that is refused passes, if all that is held expires in its
    -- time: at once then, or some time afterwards.
    local function sooner(p)
        local take, state, own = p.algorithm[1], p.state, p.holds
        local best = p.result.retry
        p.holds = { r = own.r, g = own.g }
        visit_held(p, now, LOOK_MOST, function(m, expires)
            local ahead = expires - now
            if best >= 0 and ahead >= best then
                return true
            end
            state = unhold(p, state, m.cost, m, expires)
            local r = take(p, state, p.least, expires)
            if r.outcome == 0 or (r.outcome == 1 and r.retry >= 0
                and (best < 0 or ahead + r.retry < best)) then
                best = ahead + max(r.retry, 0)
            end
            return r.outcome == 0
        end)
        p.holds = own
        return best
    end

    -- When a refusal is worth another try.
    local function retry(p)
        if p.late then -- more comes back with the next call
            return JITTER
        end
        return p.kind == "permits" and soonest(p, p.least) or sooner(p)
    end

    -- A reset forgets what is held with what is used.
    local function forget(p)
        if p.holds and p.kind ~= "permits" then
            redis.call("DEL", set_of(p))
        end
        p.holds = nil
    end

    -- None lasts longer than its life from now, and its record says so. Through
    -- all that is held of the key, however much: clocks rarely step.
    local function shorten(p)
        visit_held(p, now, -1, function(m, expires, member)
            local most = whole(now + m.life)
            local record = record_of(member)
            if expires > now + m.life then
                redis.call("ZADD", set_of(p), most, member)
                if tonumber(redis.call("TYPE", record).ok == "hash"
                    and redis.call("HGET", record, "expires") or 0)
                    > now + m.life then
                    redis.call("HSET", record, "expires", most)
                end
            end
        end)
        renew(p)
    end

    -- The server's clock has stepped back behind the value. A bucket has drained
    -- for longer than the clock shows; what was held in a window that is over,
    -- or is not the one of now, does not come back.
    local function step(p)
        local s, span = p.state, p.span
        local last = p.holds.t
        if last <= now + JITTER then
            return
        end
        shorten(p)
        if not p.holds or p.kind == "permits" or p.kind == "level" then
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

    local function join(p, s, name, life)
        local expires = now + life
        if not p.holds then
            if p.kind ~= "permits" then
                redis.call("DEL", set_of(p)) -- of a value that was lost
            end
            p.holds = { r = 0, x = expires, z = expires, g = 0, t = now }
        end
        local h = p.holds
        h.x = min(h.x, expires)
        h.z = max(h.z or 0, expires)
        p.changed = true
        if p.kind == "permits" then
            p.member = string.format("%s:%.0f:%.0f", name, p.cost, life)
            p.expires = expires
            return
        end
        local m0, m1, m2 = mark_of(p, s)
        p.member = string.format("%s:%s:%.0f:%.0f:%.0f:%.0f:%.0f", name,
            p.shape, p.cost, m0, m1, m2, life)
        redis.call("ZADD", set_of(p), whole(expires), p.member)
    end

    -- ARGV behind the parts: how long, which parts are not held (as a number of
    -- bits), and the name of each limit.
    local function begin(parts)
        local at = 2 + 12 * #parts
        local life = tonumber(ARGV[at + 1])
        local name = string.sub(KEYS[#KEYS], #RECORD + 1)
        local firm, n, firms = tonumber(ARGV[at + 2]), 0, 0
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
                    join(p, p.result.next, name, life)
                end
                note(n, { key = p.key, limit = ARGV[at + 2 + i],
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

    local STATES = { settled = 2, released = 3, expired = 4 }

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

    -- The periods of a calendar as they are by now. ARGV ends with them: for each
    -- limit its name, and grain, token, end and after as in take.lua. A limit that
    -- has left the policy is not among them: the
    -- end of a period after that of the take is not known then.
    local function tell_period(p)
        local first = op == "settle" and 7 + 2 * tonumber(ARGV[6])
            or op == "extend" and 4 or 3
        for i = first, #ARGV, 5 do
            if ARGV[i] == p.limit then
                p.grain, p.token = tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
                p.finish, p.after = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
            end
        end
        p.timeless = now >= p.finish or now < p.after
    end

    local function read_then(key, text, limit, member)
        local words = {}
        for word in string.gmatch(text, "%S+") do
            words[#words + 1] = word
        end
        local p = read_part(key, words, 0)
        p.limit, p.member = limit, member
        if p.kind == "quota" and p.span == 0 then
            tell_period(p)
        end
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
        local key, words = record["key" .. i], record["words" .. i]
        return read_then(key, words, record["limit" .. i], record["member" .. i])
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

    -- The actual cost. ARGV: op, time, "1" for a release ("2": of a take that
    -- came too late), "1" for what was held where nothing is said, the cost for
    -- all, how many limits have one of their own, then these and their costs.
    -- Permits without a cost belong to a limit that no longer exists: they are
    -- returned here, since no other call would do it.
    local function actual(p)
        local cost = ARGV[4] == "1" and p.cost or tonumber(ARGV[5])
        if ARGV[4] == "1" and p.kind == "permits" then
            cost = 0
        end
        for i = 7, 6 + 2 * tonumber(ARGV[6]), 2 do
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

    -- The member is missing if the key was reset.
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
        elseif cost > p.cost and not p.timeless then
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
    local function extend(p, record)
        if leave(p) and p.holds then
            p.member = string.gsub(p.member, "%d+$", record.life)
            redis.call("ZADD", set_of(p), whole(record.expires), p.member)
            p.holds.z = max(p.holds.z or 0, record.expires)
            renew(p)
        end
    end

    local function conclude(record)
        local life = div(record.expires - now, 1000) + MARGIN + REMEMBER
        life = whole(min(life, FOR_GOOD))
        if op == "settle" then
            redis.call("SET", KEYS[1],
                ARGV[3] ~= "0" and "released" or "settled", "PX", life)
        elseif op == "extend" then
            redis.call("HSET", KEYS[1], "expires", whole(record.expires),
                "life", record.life)
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
        if op == "extend" then
            record.expires = now + tonumber(ARGV[3])
            record.life = whole(max(tonumber(record.life), tonumber(ARGV[3])))
        end
        local reply = { state, now, record.expires - now }
        for i = 1, tonumber(record.parts) do
            local p = read_held(record, i)
            local cost, over = p.cost, 0
            if p.other then -- the key is another limit's by now: not touched
                cost = op == "settle" and actual(p) or cost
            elseif op == "settle" then
                cost, over = settle(p)
            elseif op == "extend" then
                extend(p, record)
                redis.call("HSET", KEYS[1], "member" .. i, p.member)
            end
            write_held(p)
            local r = p.algorithm[1](p, p.state, 0, now)
            for _, v in ipairs({ p.key, p.limit, p.count, p.capacity, p.cost, cost, over, r.outcome,
                r.remaining, r.retry, r.reset, r.wait }) do
                reply[#reply + 1] = v
            end
        end
        if op == "settle" and ARGV[3] == "2" then
            undo_firm(record)
        end
        conclude(record)
        return reply
    end

    return { expire = expire, retry = retry, forget = forget,
        begin = begin, finish = finish, step = step }
end

local made_holds
local function holds()
    made_holds = made_holds or make_holds()
    return made_holds
end
