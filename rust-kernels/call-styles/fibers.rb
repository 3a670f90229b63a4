# The document's event loop and its call styles, on fibers: for Ruby and for mruby, without a gem.
#
# It first prints the version of the interpreter, and then obeys lines of standard input. The name of a bench sets that
# up on a fresh loop, after the last garbage collection until the next bench. A number runs as many iterations. Each line
# is answered with the sum of the arguments of all procedures that ended since the last one.

# An entry in the run queue: whom to resume, with what, and when if it is not at once.
class Cart
  attr_accessor :resumes
  attr_reader :value, :due

  def initialize(resumes, value, due = nil)
    @resumes = resumes
    @value = value
    @due = due
  end
end

# A flow of execution that others can wait for. That of the program itself has no fiber.
class Evaluation
  attr_reader :fiber, :concluded, :result, :waiting

  def initialize(fiber)
    @fiber = fiber
    @concluded = false
    @waiting = {}
  end

  def conclude(result)
    @concluded = true
    @result = result
  end
end

class EventLoop
  def initialize
    @immediate = []
    @deferred = [] # by due time, latest first
    @readable = {}
    @writable = {}
    @pool = []
    @current = @root = Evaluation.new(nil)
    @fiber = Fiber.new { turn while true }
  end

  # -- calling ------------------------------------------------------------------------------------------------

  def call(procedure, argument)
    result = call_nonblock(procedure, argument)
    Evaluation === result ? await_result(result) : result
  end

  # The result, or the evaluation of a procedure that waits.
  def call_nonblock(procedure, argument)
    bucket = []
    caller = @current
    @current = nil
    result = fiber.resume(procedure, argument, bucket)
    @current = caller
    case result
    when Evaluation then bucket << result
    when Exception then raise result
    end
    result
  end

  def call_detached(procedure, argument)
    evaluation = Evaluation.new(fiber)
    @immediate << Cart.new(evaluation, [procedure, argument, [evaluation]])
    evaluation
  end

  def call_and_forget(procedure, argument)
    @immediate << Cart.new(fiber, [procedure, argument, []])
    nil
  end

  def await_result(evaluation)
    result = evaluation.result
    unless evaluation.concluded
      evaluation.waiting[current] = true
      result = suspend
    end
    Exception === result ? raise(result) : result
  end

  # -- waiting ------------------------------------------------------------------------------------------------

  def wait(seconds)
    cart = Cart.new(current, true, clock + seconds)
    # Those with the same due time keep their order.
    place = @deferred.bsearch_index { |other| other.due <= cart.due }
    place ? @deferred.insert(place, cart) : @deferred.push(cart)
    suspend
  ensure
    cart.resumes = nil
  end

  def await_readable(io)
    await_ready(@readable, io)
  end

  def await_writable(io)
    await_ready(@writable, io)
  end

  private

  # An idle fiber, the last one that became idle first, or a new one.
  def fiber
    @pool.pop || begin
      fiber = Fiber.new do |procedure, argument, bucket|
        while true
          begin
            result = procedure.call(argument)
          rescue StandardError => error
            result = error
          end
          conclude(bucket[0], result) if bucket[0]
          @pool.push(fiber)
          procedure, argument, bucket = Fiber.yield(result)
        end
      end
    end
  end

  def conclude(evaluation, result)
    evaluation.conclude(result)
    evaluation.waiting.each_key { |waiting| @immediate << Cart.new(waiting, result) }
  end

  # The evaluation that runs, made when it is first asked for.
  def current
    @current ||= Evaluation.new(Fiber.current)
  end

  # Leaves the evaluation that runs, until a cart resumes it with a value.
  def suspend
    @current.fiber ? Fiber.yield(@current) : @fiber.resume
  end

  def resume(flow, value)
    if flow.equal?(@root)
      @current = flow
      Fiber.yield(value)
    elsif Evaluation === flow
      @current = flow
      flow.fiber.resume(value)
    else
      @current = nil
      flow.resume(value)
    end
  end

  def await_ready(interested, io)
    interested[io] = current
    suspend
  ensure
    interested.delete(io)
  end

  # -- the loop -----------------------------------------------------------------------------------------------

  def turn
    @deferred.pop while @deferred.last && !@deferred.last.resumes
    watched = !(@readable.empty? && @writable.empty?)
    if !@immediate.empty?
      time = 0
    elsif @deferred.last
      time = @deferred.last.due - clock
    end
    if time && time <= 0
      select(0) if watched
      pass
    elsif watched || time
      select(time)
    else
      raise "nothing can happen any more"
    end
  end

  # Resumes all that is in the run queue now.
  def pass
    carts = @immediate
    @immediate = []
    unless @deferred.empty?
      now = clock
      carts.push(@deferred.pop) while @deferred.last && @deferred.last.due <= now
    end
    carts.each { |cart| resume(cart.resumes, cart.value) if cart.resumes }
  end

  def select(time)
    readable, writable = IO.select(@readable.keys, @writable.keys, nil, time)
    (readable || []).each { |io| resume(@readable[io], true) }
    (writable || []).each { |io| resume(@writable[io], true) }
  end

  if RUBY_ENGINE == "mruby"
    def clock
      Time.now.to_f
    end
  else
    def clock
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end

# The benches, as published, but that procedures add their argument to a sum.
batch = Array.new(100) { |number| number }
sum = 0
on = nil
adds = proc { |number| sum += number }
waits = proc do |number|
  on.wait(0)
  sum += number
end
reading_ends = batch.map do
  reading_end, writing_end = IO.pipe
  writing_end.write(".")
  [reading_end, writing_end]
end
writing_ends = batch.map { IO.pipe }

benches = {
  "call_methods/proc.call" => proc { batch.each { |number| adds.call(number) } },
  "call_methods/conproc.call" => proc { batch.each { |number| on.call(adds, number) } },
  "call_methods/conproc.call_nonblock" => proc { batch.each { |number| on.call_nonblock(adds, number) } },
  "call_methods/conproc.call_detached" => proc do
    batch.each { |number| on.call_detached(adds, number) }
    on.wait(0)
  end,
  "call_methods/conproc.call_and_forget" => proc do
    batch.each { |number| on.call_and_forget(adds, number) }
    on.wait(0)
  end,
  "wait_methods/wait" => proc { batch.each { |number| waits.call(number) } },
  "wait_methods/await_readable" => proc do
    batch.each do |number|
      on.await_readable(reading_ends[number][0])
      sum += number
    end
  end,
  "wait_methods/await_writable" => proc do
    batch.each do |number|
      on.await_writable(writing_ends[number][1])
      sum += number
    end
  end,
  "call_methods_waiting/waiting call" => proc { batch.each { |number| on.call(waits, number) } },
  "call_methods_waiting/waiting call_nonblock" => proc do
    evaluations = batch.map { |number| on.call_nonblock(waits, number) }
    evaluations.each { |evaluation| on.await_result(evaluation) }
  end,
  "call_methods_waiting/waiting call_detached" => proc do
    evaluations = batch.map { |number| on.call_detached(waits, number) }
    evaluations.each { |evaluation| on.await_result(evaluation) }
  end,
  "call_methods_waiting/waiting call_and_forget" => proc do
    batch.each { |number| on.call_and_forget(waits, number) }
    on.wait(0)
  end
}

iteration = nil
puts RUBY_ENGINE_VERSION
$stdout.flush
while (order = $stdin.gets)
  order = order.chomp
  if benches.key?(order)
    on = EventLoop.new
    iteration = benches[order]
    # A call that was forgotten ends in the next iteration if it waits, so that each ends as many as it begins.
    iteration.call
    GC.enable
    GC.start
    GC.disable
  else
    order.to_i.times { iteration.call }
  end
  puts sum
  $stdout.flush
  sum = 0
end
