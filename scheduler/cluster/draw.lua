-- draw takes tokens from the bucket of a rate (GCRA), never more than there are.
-- A negative number gives tokens back.
-- KEYS[1] theoretical arrival time, µs; KEYS[2] zset: node -> end of its demand, ms;
-- KEYS[3] epoch: "id born"
-- ARGV    node, nonce, interval in µs (period / limit), burst, want, ttl in ms, span in ms
-- Reply   {got, wait in µs, nodes with demand, born}
-- In a new epoch the bucket begins empty, because what was drawn before is not known.
local interval, burst, want = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local ttl = tonumber(ARGV[6])
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local ms = math.floor(now / 1000)
local epoch, born = redis.call('GET', KEYS[3]), ms
if epoch then
  born = tonumber(string.match(epoch, '(%d+)$'))
else
  redis.call('SET', KEYS[3], ARGV[2] .. ' ' .. string.format('%.0f', ms))
end

local tat = redis.call('GET', KEYS[1])
if tat then
  tat = math.max(now, tonumber(tat))
elseif ms - born < ttl then
  tat = now + burst * interval
else
  tat = now
end

redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', ms)
if want > 0 then
  redis.call('ZADD', KEYS[2], ms + 2 * tonumber(ARGV[7]), ARGV[1])
  redis.call('PEXPIRE', KEYS[2], ttl)
end
local n = math.max(1, redis.call('ZCARD', KEYS[2]))

local got, wait = want, 0
if want > 0 then
  local available = math.floor((now + burst * interval - tat) / interval + 1e-6)
  got = math.max(0, math.min(want, math.max(1, math.floor(burst / n)), available))
  if got == 0 then wait = math.ceil(tat + interval - burst * interval - now) end
end
tat = math.max(now, tat + got * interval)
redis.call('SET', KEYS[1], string.format('%.3f', tat), 'PX', math.max(ttl, math.ceil((tat - now) / 1000) + 1))
return {got, wait, n, born}
