-- probe takes, renews or releases the right to try a dead destination.
-- KEYS[1] who has it: "node nonce"
-- ARGV    "node nonce", ms for which it is kept; 0: release it
--         renew (1: keep it if this process has it; 0: take it, too, if it is free)
-- Reply   {1}: this process has it, or has released it
--         {0, ms until it is free, "node nonce"}: another process has it, or nobody
local owner = redis.call('GET', KEYS[1])
local span = tonumber(ARGV[2])
if span == 0 then
  if owner == ARGV[1] then redis.call('DEL', KEYS[1]) end
  return {1}
end
if not owner and ARGV[3] == '0' then
  redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', span)
  return {1}
end
if owner == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], span)
  return {1}
end
return {0, math.max(0, redis.call('PTTL', KEYS[1])), owner or ''}
