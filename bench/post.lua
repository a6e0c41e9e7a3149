-- wrk script. Arguments: a file whose content is posted, headers as Name=value, and paths, of which each request takes
-- one by chance. Prints one line that starts with RESULT.

function init(args)
  local file = assert(io.open(args[1], "rb"))
  wrk.method = "POST"
  wrk.body = file:read("*a")
  file:close()
  local paths = {}
  for number = 2, #args do
    if args[number]:sub(1, 1) == "/" then
      paths[#paths + 1] = args[number]
    else
      local name, value = args[number]:match("^([^=]+)=(.*)$")
      wrk.headers[name] = value
    end
  end
  if #paths > 0 then
    local requests = {}
    for number, path in ipairs(paths) do requests[number] = wrk.format(nil, path) end
    request = function() return requests[math.random(#requests)] end
  end
end

function done(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests": %d, "duration_us": %d, "p50_us": %d, "p99_us": %d, "refused": %d, "failed": %d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end
