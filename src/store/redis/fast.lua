-- fast.lua -- the usual case, before all else: a set of token buckets and fixed
-- windows is taken, no part denies it, and penalties have no failures.
--
-- A script is run from its first line, and whatever it defines it makes anew
-- each time: most of its time went there. This stands first and needs nothing of
-- what follows. Whatever is not usual (a refusal, another kind, a value that is
-- leased, held, from the future or none of ours, numbers beyond 2^53) is left as
-- it was found, and the rest of the script is run.
--
-- It says what kinds.lua says; test/conform compares both with core/.
--
-- What is cheap here: one table for one key; % below 2^53, where it is exact,
-- instead of math.fmod; "%d" instead of "%.0f" and of the number itself, which
-- Redis writes with 17 digits. Where a C long has 32 bits, "%d" would cut what
-- is not below BITS_31.

if ARGV[1] == "take" and #ARGV == 2 + 12 * #KEYS then
    local MOST, BITS_31 = 9007199254740991, 2147483648
    local KEYS, ARGV, format = KEYS, ARGV, string.format
    local many = #KEYS > 1
    local reply, values, lives, now, now_text, margin

    if string.byte(ARGV[2]) == 126 then -- "~": the server's time
        local time = redis.pcall("TIME")
        local seconds, micros = time[1], time[2]
        if seconds then
            micros = micros .. "" -- some servers answer with integers
            now = seconds * 1000000 + micros
            now_text = #micros == 6 and seconds .. micros
                or format("%s%06d", seconds, micros)
        end
        margin = 1000
    else
        now_text = ARGV[2]
        now = tonumber(now_text)
        margin = 86400000
    end
    if many then
        reply, values, lives = { 1, now, 0 }, {}, {}
    end
    for i = 1, now and #KEYS or 0 do
        local at = i * 12 - 9
        local kind, shape, cost = ARGV[at], ARGV[at + 1], ARGV[at + 7] + 0
        local capacity, alone = ARGV[at + 3] + 0, ARGV[at + 11] == "0"
        local a, b, left, used, reset
        if cost > 0 and alone and (kind == "bucket" or kind == "fixed") then
            local value = redis.pcall("GET", KEYS[i])
            if not value then
                a, b = now, 0 -- a new key has used nothing
            elseif type(value) == "string" then
                local its
                its, a, b = string.match(value, "^1:(%d+):(%d+):(%d+):0$")
                if its ~= shape then
                    break
                end
                a, b = a + 0, b + 0
            end
            if not a or a > now or b > MOST then
                break
            end
        elseif kind ~= "penalty" or cost ~= 0
            or redis.pcall("GET", KEYS[i]) ~= false then
            break
        end
        if kind == "bucket" then
            local count, grain = ARGV[at + 2] + 0, ARGV[at + 5] + 0
            local token = ARGV[at + 6] + 0
            local poured = (now - a) * count
            if poured > MOST then
                break
            end
            used = b - (poured - poured % grain) / grain
            used = (used > 0 and used or 0) + cost * token
            left = capacity * token - used
            local need = used * grain
            if left < 0 or need > MOST or left > MOST then
                break
            end
            local over = need % count
            reset = (need - over) / count + (over > 0 and 1 or 0)
            left = (left - left % token) / token
        elseif kind == "fixed" then
            local span = ARGV[at + 4] + 0
            local start = now - now % span
            used = (a >= start and b or 0) + cost
            left = capacity - used
            if left < 0 then
                break
            end
            reset = start + span - now
        else -- a penalty without failures
            left, reset = capacity, 0
        end
        local value, life
        if used then
            life = (reset - reset % 1000) / 1000 + margin
            life = format(life < BITS_31 and "%d" or "%.0f", life)
            value = "1:" .. shape .. ":" .. now_text .. ":"
                .. format(used < BITS_31 and "%d" or "%.0f", used) .. ":0"
        end
        if many then
            local to = i * 5 - 1
            reply[to], reply[to + 1], reply[to + 2] = 0, left, -1
            reply[to + 3], reply[to + 4] = reset, 0
            values[i], lives[i] = value or false, life or false
        else
            if value then
                redis.call("SET", KEYS[i], value, "PX", life)
            end
            return { 1, now, 0, 0, left, -1, reset, 0 }
        end
    end
    if many and now and #values == #KEYS then
        for i = 1, #KEYS do
            if values[i] then
                redis.call("SET", KEYS[i], values[i], "PX", lives[i])
            end
        end
        return reply
    end
end
