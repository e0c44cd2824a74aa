const at = (id) => document.getElementById(id);
let token = sessionStorage.getItem("gssc-token") || "";

function ask(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (token) headers.Authorization = "Bearer " + token;
  return fetch(path, { ...options, headers });
}

async function complaint(response) {
  try { return (await response.json()).detail; } catch { return "the server answered " + response.status; }
}

function show(id, visible = true) { at(id).hidden = !visible; }

function fail(message) {
  at("error").textContent = message;
  show("error");
  show("result", false);
}

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function line(...cells) {
  const row = element("tr");
  row.append(...cells);
  return row;
}

// The description of the model; asks for a token if the server requires one, and returns undefined until it has it.
async function model() {
  let response;
  try { response = await ask("model"); } catch { return fail("The server cannot be reached."); }
  show("ask-token", response.status === 401);
  if (response.status === 401) {
    if (token) fail("This token is invalid.");
    return;
  }
  if (!response.ok) return fail(await complaint(response));
  show("error", false);
  return response.json();
}

at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  sessionStorage.setItem("gssc-token", token);
  start();
});
